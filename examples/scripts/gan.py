"""Two networks, two optimizers: one makes points on a ring, the other tells them from real ones."""

import argparse

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as judged
from torch.utils.data import DataLoader, TensorDataset

import paceline

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--epochs", type=int, default=8)
args = parser.parse_args()

torch.manual_seed(5)
angles = 2 * torch.pi * torch.rand(2048)
points = torch.stack([angles.cos(), angles.sin()], dim=1) + 0.05 * torch.randn(2048, 2)
loader = DataLoader(TensorDataset(points), batch_size=args.batch, shuffle=True)
critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
maker = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
critic_steps = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.999))
maker_steps = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.999))
*_, loader = paceline.wrap(critic, maker, critic_steps, maker_steps, loader)

for epoch in range(args.epochs):
    for (real,) in loader:
        yes, no = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        made = maker(torch.randn(len(real), 4))

        critic_steps.zero_grad()
        judged(critic(real), yes).backward()
        judged(critic(made.detach()), no).backward()
        critic_steps.step()

        maker_steps.zero_grad()
        judged(critic(made), yes).backward()
        maker_steps.step()
    with torch.no_grad():
        radius = maker(torch.randn(512, 4)).norm(dim=1).mean().item()
    print(f"epoch {epoch}: mean radius {radius:.4f}")
