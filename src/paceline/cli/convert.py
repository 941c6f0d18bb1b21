"""`paceline data convert`: sparse rows into arrays that train faster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from paceline.cli.data import DataDir, shown

if TYPE_CHECKING:
    from paceline.workloads.data.sparse.binary import RowsHeader


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="A file, a folder of files, or a pattern in quotes: Criteo's text or libsvm's,"
            " plain or .gz, or TFRecord files.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The folder to write into.", show_default=False),
    ],
    *,
    format_: Annotated[
        Literal["auto", "criteo", "libsvm", "tfrecord"],
        typer.Option("--format", help="Format of the rows; auto: by the first row."),
    ] = "auto",
    features: Annotated[
        Literal["hash", "vocabulary"],
        typer.Option(
            help="How Criteo's features are numbered. hash: each run sets how many numbers "
            "there are. vocabulary: each feature that occurs gets its own number.",
        ),
    ] = "hash",
    bad_rows: Annotated[
        Literal["stop", "skip"], typer.Option(help="Stop at a bad row, or skip and count it.")
    ] = "stop",
    data_dir: DataDir = None,
) -> None:
    """Convert sparse rows into arrays that are mapped into memory: they train far faster.

    Memory does not grow with the number of rows. To continue an interrupted conversion,
    start it again.
    """
    from paceline.workloads.data.sparse import convert as conversion

    with shown() as progress:
        made = conversion.convert(
            source,
            out,
            progress=progress,
            format_=format_,
            numbering=features,
            bad_rows=bad_rows,
            data_dir=data_dir,
        )
    typer.echo(_told(made, out))


def _told(made: RowsHeader, out: Path) -> str:
    count = "" if made.num_features is None else f" of {made.num_features:,} features"
    lines = [f"{made.num_rows:,} {made.kind} rows{count} are in {out}"]
    if made.skipped_rows:
        lines.append(f"{made.skipped_rows:,} bad rows were left out, such as {made.first_skipped}")
    return "\n".join(lines)
