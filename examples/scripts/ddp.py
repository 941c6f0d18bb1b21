"""A script for torchrun: DistributedDataParallel, a DistributedSampler, and no line of Paceline."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--hidden", type=int, default=64)
args = parser.parse_args()

dist.init_process_group("gloo")
torch.manual_seed(0)
inputs = torch.randn(2048, 20)
classes = (inputs.square().sum(1) > 20).long()
rows = TensorDataset(inputs, classes)
sampler = DistributedSampler(rows)
loader = DataLoader(rows, batch_size=args.batch, sampler=sampler)
model = nn.Sequential(nn.Linear(20, args.hidden), nn.ReLU(), nn.Linear(args.hidden, 2))
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    total = torch.zeros(1)
    for batch, wanted in loader:
        loss = nn.functional.cross_entropy(model(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        mean = total.item() / len(loader) / dist.get_world_size()
        print(f"epoch {epoch}: loss {mean:.4f}")
dist.destroy_process_group()
