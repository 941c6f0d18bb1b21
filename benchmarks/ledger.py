"""Whether what servers applied and what they lost is together what their workers pushed."""

from __future__ import annotations

from kills import Figures


def problems(name: str, figures: Figures, *, in_step: bool) -> list[str]:
    """Print the ledger of each server of a run, and say where it does not add up."""
    found = []
    for server, applied in figures.applied.items():
        lost = figures.lost.get(server, 0)
        count, low, high = (_in_step if in_step else _apart)(figures, server)
        more = applied + lost - count
        what = "steps of the worker that made most" if in_step else "pushes"
        print(
            f"  {server}: {applied:,} updates + {lost:,} lost - {count:,} {what} = {more:,} ",
            end="",
        )
        print(f"(from {low:,} to {high:,} may be)", flush=True)
        if not low <= more <= high:
            found.append(f"{name}: the ledger of {server} does not add up")
    return found


def _apart(figures: Figures, server: str) -> tuple[int, int, int]:
    """Every push is an update once, or counted as lost.

    An update whose answer was under way counts as lost, and its push is applied again: one for each
    other worker. What a worker did since its last row nobody knows when it is killed; nor, when the
    server is lost too, which of its updates only that worker had seen.
    """
    unknown = _unknown(figures)
    num_lost = figures.losses.get(server, 0)
    fewer = unknown if num_lost else 0
    more = num_lost * (len(figures.pushes) - 1) + unknown
    return sum(figures.pushes.values()), -fewer, more


def _in_step(figures: Figures, server: str) -> tuple[int, int, int]:
    """Each worker pushed once for every update that was made while it was there.

    Where a server goes back, each worker's push that is under way comes to nothing, and so it may
    where a worker dies. Servers that go back together may be one update apart.
    """
    num_lost, num_deaths = figures.losses.get(server, 0), _num_deaths(figures)
    most = max(figures.pushes.values(), default=0)
    apart = num_lost if len(figures.applied) > 1 or num_deaths else 0
    # Where workers died, none was there for all updates.
    absent = sum(figures.pushes.values()) - most + _unknown(figures) if num_deaths else 0
    return most, -(num_lost + num_deaths + apart), apart + absent


def _num_deaths(figures: Figures) -> int:
    return sum(count for who, count in figures.losses.items() if who.startswith("worker"))


def _unknown(figures: Figures) -> int:
    """How many pushes killed workers may have made since their last row, the last of them in part
    among them.
    """
    return _num_deaths(figures) * (figures.most_per_row + 1)
