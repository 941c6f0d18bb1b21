"""A language model of Hugging Face's transformers, made from its configuration: no download."""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup

import paceline

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=3e-3)
args = parser.parse_args()

torch.manual_seed(2)
config = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2)
model = GPT2LMHeadModel(config)
starts = torch.randint(64, (512, 1))
words = (starts + 3 * torch.arange(16)) % 64  # every word follows from the one before
loader = DataLoader(TensorDataset(words), batch_size=args.batch, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
model, optimizer, loader = paceline.wrap(model, optimizer, loader)
scheduler = get_linear_schedule_with_warmup(optimizer, 10, args.epochs * len(loader))

model.train()
for epoch in range(args.epochs):
    for number, (batch,) in enumerate(loader):
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        if number % 8 == 0:
            print(f"epoch {epoch} batch {number}: loss {loss.item():.4f}")
