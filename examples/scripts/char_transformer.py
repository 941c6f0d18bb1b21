"""A small transformer that learns to continue a text, with what larger ones are trained with.

AdamW in two groups, warm-up and cosine, gradient clipping, accumulation, bfloat16 by autocast.
"""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import paceline

TEXT = (
    "a paceline is a line of riders who take turns at the front. "
    "so is a group of machines that train one model. "
) * 40


class Passages(Dataset):
    def __init__(self, text, length):
        self.letters = sorted(set(text))
        number = {letter: index for index, letter in enumerate(self.letters)}
        self.text = torch.tensor([number[letter] for letter in text])
        self.length = length

    def __len__(self):
        return len(self.text) - self.length - 1

    def __getitem__(self, start):
        passage = self.text[start : start + self.length + 1]
        return passage[:-1], passage[1:]


class Layer(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixing = nn.Linear(width, 3 * width, bias=False)
        self.joining = nn.Linear(width, width, bias=False)
        self.thinking = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, values):
        batch, length, _ = values.shape
        mixed = self.mixing(self.norm1(values)).view(batch, length, self.heads, -1).transpose(1, 2)
        seen = functional.scaled_dot_product_attention(*mixed.chunk(3, dim=-1), is_causal=True)
        values = values + self.dropout(self.joining(seen.transpose(1, 2).reshape(values.shape)))
        return values + self.dropout(self.thinking(self.norm2(values)))


class Transformer(nn.Module):
    def __init__(self, num_letters, length, width=64, heads=4, layers=2, dropout=0.1):
        super().__init__()
        self.letters = nn.Embedding(num_letters, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.ModuleList([Layer(width, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, num_letters, bias=False)
        self.out.weight = self.letters.weight  # tied

    def forward(self, letters):
        values = self.letters(letters) + self.places
        for layer in self.layers:
            values = layer(values)
        return self.out(self.norm(values))


def groups(model, decay):
    matrices = [each for each in model.parameters() if each.dim() >= 2]
    others = [each for each in model.parameters() if each.dim() < 2]
    return [
        {"params": matrices, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]


def rate(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / (total - warmup))))


parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--length", type=int, default=32)
parser.add_argument("--accumulate", type=int, default=2)
parser.add_argument("--clip", type=float, default=1.0)
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--no-amp", action="store_true")
parser.add_argument("--double", action="store_true")
args = parser.parse_args()

torch.manual_seed(7)
torch.set_default_dtype(torch.float64 if args.double else torch.float32)
passages = Passages(TEXT, args.length)
loader = DataLoader(passages, batch_size=args.batch, shuffle=True)
model = Transformer(len(passages.letters), args.length, dropout=args.dropout)
optimizer = torch.optim.AdamW(groups(model, 0.1), lr=args.lr)
scheduler = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: rate(step, warmup=10, total=args.steps)
)
model, optimizer, loader = paceline.wrap(model, optimizer, loader)

step = 0
while step < args.steps:
    for number, (letters, following) in enumerate(loader, start=1):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not args.no_amp):
            scores = model(letters)
            loss = functional.cross_entropy(scores.flatten(0, 1), following.flatten())
        (loss / args.accumulate).backward()
        if number % args.accumulate:
            continue
        if args.clip:
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
        step += 1
        if step == args.steps:
            break
print(f"step {step}: loss {loss.item():.4f}")
