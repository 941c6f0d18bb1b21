"""A script of Hugging Face's Accelerate, and no line of Paceline."""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()

accelerator = Accelerator(cpu=True)
set_seed(0)
inputs = torch.randn(2048, 20)
classes = (inputs.square().sum(1) > 20).long()
loader = DataLoader(TensorDataset(inputs, classes), batch_size=args.batch, shuffle=True)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

for epoch in range(args.epochs):
    losses = []
    for batch, wanted in loader:
        loss = nn.functional.cross_entropy(model(batch), wanted)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    mean = accelerator.gather(torch.stack(losses).mean()).mean()
    accelerator.print(f"epoch {epoch}: loss {mean:.4f}")
accelerator.end_training()
