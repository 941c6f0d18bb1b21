# ruff: noqa: INP001 - a script, not a package
"""Put figures of a report into docs/images/gallery, small: what the gallery shows.

python tools/gallery.py runs/study-mnist-logistic-quick loss-over-samples cpu
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

WIDTH = 720
NUM_COLOURS = 64
GALLERY = Path(__file__).parent.parent / "docs" / "images" / "gallery"


def small(source: Path, target: Path) -> None:
    """Scale a picture down, on white, with few colours."""
    with Image.open(source) as opened:
        picture = opened.convert("RGBA")
    white = Image.new("RGBA", picture.size, "white")
    flat = Image.alpha_composite(white, picture).convert("RGB")
    height = round(flat.height * WIDTH / flat.width)
    scaled = flat.resize((WIDTH, height), Image.Resampling.LANCZOS)
    scaled.quantize(NUM_COLOURS).save(target, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="the folder of a report")
    parser.add_argument("figures", nargs="+", metavar="FIGURE", help="by name")
    arguments = parser.parse_args()
    GALLERY.mkdir(parents=True, exist_ok=True)
    for name in arguments.figures:
        small(arguments.report / "figures" / f"{name}.png", GALLERY / f"{name}.png")


if __name__ == "__main__":
    main()
