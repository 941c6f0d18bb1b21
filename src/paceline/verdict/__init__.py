"""What held a run up: from what was measured to one sentence, and what to try next."""

from paceline.verdict.judge import judge, suggestions_for
from paceline.verdict.parts import Parts, all_parts, run_parts

__all__ = ["Parts", "all_parts", "judge", "run_parts", "suggestions_for"]
