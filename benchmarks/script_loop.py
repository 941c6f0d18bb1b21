"""A training script that is timed block by block, bare or in a run: see `scripts.py`.

It waits at a socket for its turn, makes a block of steps, and says how long that took: seconds of
the clock, and of the processor.
"""

from __future__ import annotations

import runpy
import socket
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import paceline

EXAMPLES = Path(__file__).parents[1] / "examples" / "scripts"


def mlp() -> tuple[nn.Module, DataLoader[Any], Any]:
    """100 thousand parameters, batches of 64."""
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    rows = TensorDataset(torch.randn(6400, 784), torch.randint(10, (6400,)))
    return model, DataLoader(rows, batch_size=64, shuffle=True), functional.cross_entropy


def transformer() -> tuple[nn.Module, DataLoader[Any], Any]:
    """The example's, with what it has for its own text."""
    source = (EXAMPLES / "char_transformer.py").read_text().partition("\nparser = ")[0]
    known: dict[str, Any] = runpy.run_path(str(_defined(source)))
    passages = known["Passages"](known["TEXT"], 32)
    model = known["Transformer"](len(passages.letters), 32)

    def loss(scores: Tensor, following: Tensor) -> Tensor:
        return functional.cross_entropy(scores.flatten(0, 1), following.flatten())

    return model, DataLoader(passages, batch_size=16, shuffle=True), loss


def _defined(source: str) -> Path:
    """Write the definitions of a script as a file of their own: running all of it would train."""
    path = Path(sys.argv[2]).with_suffix(f".{Path(sys.argv[2]).stem}.py")
    path.write_text(source)
    return path


KINDS = {"mlp": mlp, "transformer": transformer}


def main() -> None:
    kind, place, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    model, loader, loss_of = KINDS[kind]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = paceline.wrap(model, optimizer, loader)
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(place)
        left, began = 0, (0.0, 0.0)
        while True:
            for inputs, wanted in loader:
                if not left:
                    if began[0]:
                        spent = (time.perf_counter() - began[0], time.process_time() - began[1])
                        line.sendall(f"{spent[0]} {spent[1]}\n".encode())
                    left = int(line.recv(100) or b"0")
                    if not left:
                        return
                    began = time.perf_counter(), time.process_time()
                loss = loss_of(model(inputs), wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                left -= 1


if __name__ == "__main__":
    main()
