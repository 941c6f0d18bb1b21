"""Digits: a convolutional network, a test after each epoch, a learning rate that decays."""

import argparse

import torch
from digits import digits_of
from torch import nn, optim
from torch.nn import functional
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader

import paceline


class Net(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.dropout = nn.Dropout(dropout)
        self.full1 = nn.Linear(16 * 12 * 12, 64)
        self.full2 = nn.Linear(64, 10)

    def forward(self, images):
        hidden = functional.relu(self.conv1(images))
        hidden = functional.max_pool2d(functional.relu(self.conv2(hidden)), 2)
        hidden = functional.relu(self.full1(self.dropout(hidden.flatten(1))))
        return functional.log_softmax(self.full2(self.dropout(hidden)), dim=1)


def train(args, model, loader, optimizer, epoch):
    model.train()
    for number, (images, digits) in enumerate(loader):
        optimizer.zero_grad()
        loss = functional.nll_loss(model(images), digits)
        loss.backward()
        optimizer.step()
        if number % args.log_interval == 0:
            print(f"epoch {epoch} batch {number}: loss {loss.item():.4f}")


def test(model, loader):
    model.eval()
    loss, right = 0.0, 0
    with torch.no_grad():
        for images, digits in loader:
            output = model(images)
            loss += functional.nll_loss(output, digits, reduction="sum").item()
            right += (output.argmax(dim=1) == digits).sum().item()
    count = len(loader.dataset)
    print(f"test: loss {loss / count:.4f}, accuracy {right / count:.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--dropout", type=float, default=0.25)
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--double", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(1)
    dtype = torch.float64 if args.double else torch.float32
    torch.set_default_dtype(dtype)
    loader = DataLoader(digits_of("train", dtype), batch_size=args.batch, shuffle=True)
    test_loader = DataLoader(digits_of("test", dtype), batch_size=500)
    model = Net(args.dropout)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    model, optimizer, loader = paceline.wrap(model, optimizer, loader)

    for epoch in range(args.epochs):
        train(args, model, loader, optimizer, epoch)
        test(model, test_loader)
        scheduler.step()


if __name__ == "__main__":
    main()
