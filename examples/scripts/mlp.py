"""A plain training script: a model, an optimizer, a DataLoader and a loop."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import paceline

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--double", action="store_true")
args = parser.parse_args()

torch.manual_seed(0)
torch.set_default_dtype(torch.float64 if args.double else torch.float32)
inputs = torch.randn(2048, 20)
classes = (inputs.square().sum(1) > 20).long()
loader = DataLoader(TensorDataset(inputs, classes), batch_size=args.batch, shuffle=True)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
model, optimizer, loader = paceline.wrap(model, optimizer, loader)

for epoch in range(args.epochs):
    losses = []
    for rows, wanted in loader:
        loss = nn.functional.cross_entropy(model(rows), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if losses:
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}")
