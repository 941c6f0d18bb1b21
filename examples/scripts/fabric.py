"""A script of Lightning Fabric, started by torchrun as a rule, and no line of Paceline."""

import argparse
import os

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()

local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
nodes = int(os.environ.get("WORLD_SIZE", "1")) // local
fabric = Fabric(accelerator="cpu", strategy="ddp", devices=local, num_nodes=nodes)
fabric.launch()
fabric.seed_everything(0)
inputs = torch.randn(2048, 20)
classes = (inputs.square().sum(1) > 20).long()
loader = DataLoader(TensorDataset(inputs, classes), batch_size=args.batch, shuffle=True)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
model, optimizer = fabric.setup(model, optimizer)
loader = fabric.setup_dataloaders(loader)

for epoch in range(args.epochs):
    losses = []
    for batch, wanted in loader:
        loss = nn.functional.cross_entropy(model(batch), wanted)
        optimizer.zero_grad()
        fabric.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    mean = fabric.all_reduce(torch.stack(losses).mean(), reduce_op="mean")
    fabric.print(f"epoch {epoch}: loss {mean:.4f}")
