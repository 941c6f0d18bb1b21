"""What people know of gradients holds in a run; the script itself looks, in every worker."""

import textwrap

import pytest

from tests.engine.scripted.scripts import log_of, run_script

HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import paceline

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(2, 2, bias=False)
        self.tied = nn.Linear(2, 2, bias=False)
        self.tied.weight = self.shared.weight
        self.never = nn.Linear(2, 2)
        self.first_only = nn.Linear(2, 2, bias=False)
        self.short = nn.Linear(2, 2, bias=False).to(torch.bfloat16)
        self.frozen = nn.Linear(2, 2).requires_grad_(False)
        self.register_buffer("drawn", torch.rand(2))
        self.own = "mine"

    def forward(self, rows):
        hidden = self.tied(self.frozen(self.shared(rows)))
        hidden = hidden + self.short(rows.to(torch.bfloat16)).float()
        return self.first_only(hidden) if paceline.is_main() else hidden

torch.manual_seed(0 if paceline.is_main() else 99)  # all must take worker 0's values
model = Net()
keys = list(model.state_dict())
named = [each for name, each in model.named_parameters() if each.requires_grad]
optimizer = torch.optim.AdamW(
    [{"params": named[:1]}, {"params": named[1:], "lr": 0.02, "weight_decay": 0.5}], lr=0.01
)
loader = DataLoader(TensorDataset(torch.ones(64, 2)), batch_size=2)
before = model, optimizer
model, optimizer, loader = paceline.wrap(model, optimizer, loader)
assert before[0] is model and before[1] is optimizer
assert type(model) is Net and isinstance(model, Net) and model.own == "mine"
assert list(model.state_dict()) == keys
print("drawn", model.drawn.tolist(), model.shared.weight.tolist())
start = {name: each.detach().clone() for name, each in model.named_parameters()}
batches = iter(loader)
(rows,) = next(batches)
"""
AVERAGED = """
scale = 1.0 if paceline.is_main() else 3.0
(scale * model.shared(rows).sum()).backward()
assert torch.allclose(model.shared.weight.grad, torch.full((2, 2), 4.0)), model.shared.weight.grad
assert model.never.weight.grad is None and model.first_only.weight.grad is None
(scale * model.shared(rows).sum()).backward()  # adds up, and stays the average
assert torch.allclose(model.shared.weight.grad, torch.full((2, 2), 8.0)), model.shared.weight.grad
with paceline.no_sync(model):
    (scale * model.shared(rows).sum()).backward()
own = 8.0 + 2 * scale
assert torch.allclose(model.shared.weight.grad, torch.full((2, 2), own))
optimizer.zero_grad(set_to_none=True)
torch.zeros(1, requires_grad=True).sum().backward()  # touches nothing that is trained
assert model.shared.weight.grad is None
if paceline.is_main():
    model.first_only(rows).sum().backward()
else:
    torch.zeros(1, requires_grad=True).sum().backward()
assert torch.allclose(model.first_only.weight.grad, torch.full((2, 2), 1.0))  # others count as zero
assert model.shared.weight.grad is None
optimizer.zero_grad()
"""
LOOP = """
for (rows,) in batches:
    optimizer.zero_grad()
    model(rows).square().mean().backward()
    optimizer.step()
now = dict(model.named_parameters())
same = [name for name, each in start.items() if torch.equal(each, now[name])]
assert same == ["never.weight", "never.bias", "frozen.weight", "frozen.bias"], same
assert now["short.weight"].dtype == torch.bfloat16
assert not any(each.isnan().any() for each in now.values())
print("learnt", [round(each, 5) for each in model.shared.weight.flatten().tolist()])
"""


@pytest.mark.parametrize(
    "strategy",
    [
        "ring",
        "ps-sync",
        *(pytest.param(e, marks=pytest.mark.thorough) for e in ("ddp", "ps-async")),
    ],
)
def test_gradients_mean_what_they_always_meant(tmp_path, strategy):
    path = tmp_path / "train.py"
    averaged = AVERAGED if strategy in {"ring", "ddp"} else ""
    path.write_text(textwrap.dedent(HEAD + averaged + LOOP))
    result = run_script(tmp_path / "runs", path, strategy=strategy)
    logs = [log_of(result, f"worker{rank}").splitlines() for rank in range(2)]
    assert [each for each in logs[0] if "drawn" in each] == [e for e in logs[1] if "drawn" in e]
    if strategy != "ps-async":
        assert logs[0][-1] == logs[1][-1]
        assert logs[0][-1].startswith("learnt")
