"""Where each strategy wins: over the link's rate, and over bytes per second of computing.

Synchronous strategies only, by closed forms: those that give the same result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from paceline.arithmetic.forecast import Situation, forecast
from paceline.arithmetic.network import LinkRate
from paceline.planning.candidates import Candidate, candidates
from paceline.planning.plan import Plan, network_of

_LINKS: Final = (0.1e9, 0.3e9, 1e9, 3e9, 10e9, 30e9, 100e9)
_TIMES: Final = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)
"""Computing, over what was calibrated."""
_TIE: Final = 0.03


def winners(plan: Plan, machines: int) -> list[dict[str, Any]]:
    """Say which is quickest on so many machines, for links and speeds of computing."""
    every = candidates(plan.scenario, machines, is_script=plan.basis.is_script)
    wanted = [each for each in every if each.strategy.in_step]
    found = []
    for link in _LINKS:
        for times in _TIMES:
            scaled = replace(plan, basis=_computing(plan, times))
            steps = {each.label: _rows_per_s(each, scaled, link) for each in wanted}
            best = max(steps, key=lambda label: steps[label])
            alike = [label for label, value in steps.items() if value >= steps[best] * (1 - _TIE)]
            step = scaled.basis.step
            found.append(
                {
                    "link_bits_per_s": link,
                    "mb_per_s": step.pushed_bytes / 1e6 / step.compute_s,
                    "best": alike[0] if alike else best,
                    "rows_per_s": steps[best],
                }
            )
    return found


def _computing(plan: Plan, times: float) -> Any:
    return replace(plan.basis, step=plan.basis.step.scaled(times))


def _rows_per_s(candidate: Candidate, plan: Plan, link_bits_per_s: float) -> float:
    """Predict by closed forms alone."""
    basis, scenario = plan.basis, plan.scenario
    situation = Situation(
        step=basis.step,
        network=replace(network_of(scenario), link=LinkRate(bits_per_s=link_bits_per_s)),
        num_workers=candidate.num_workers,
        num_nodes=candidate.num_nodes,
        costs=basis.costs,
        slowness=scenario.slowness(candidate.num_nodes),
    )
    made = forecast(candidate.exchange, situation, simulate=False)
    return basis.batch * made.worker_steps_per_s
