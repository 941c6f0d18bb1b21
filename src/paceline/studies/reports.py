"""The reports that studies carry out again: who wrote them, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, kw_only=True)
class Report:
    """A report, as claims and tables name it, and in full."""

    short: str
    authors: str
    title: str
    of: str
    """What kind of work it is, where and when."""

    @property
    def full(self) -> str:
        """Cite it: authors, title, kind."""
        return f"{self.authors}, {self.title} ({self.of})"


_ALL: Final = (
    Report(
        short="Bhat et al.",
        authors="Akshata Bhat, Kyle Klassy and Rohit Kumar Sharma",
        title='"CS744 - Big Data Systems Assignment 2"',
        of="course report, University of Wisconsin-Madison, 2019",
    ),
    Report(
        short="Liu et al.",
        authors="Zifan Liu, Yufei Wang and Jiefeng Chen",
        title='"CS 744 Assignment 2 Report"',
        of="course report",
    ),
    Report(
        short="Jin et al.",
        authors="Xin Jin, Hongyi Wang and Yuzhe Ma",
        title='"Assignment 3 - PartA"',
        of="course report of group 8, 2017",
    ),
    Report(
        short="the untitled report",
        authors="authors not named",
        title='without a title; its first section is "Synchronous SGD"',
        of="course report",
    ),
    Report(
        short="Shi",
        authors="Dongwei Shi",
        title=(
            '"Comparison of Distributed Training Architecture for Convolutional Neural Network '
            'in Cloud"'
        ),
        of="master's thesis, University of Illinois at Urbana-Champaign, 2019",
    ),
)
REPORTS: Final = {report.short: report for report in _ALL}
