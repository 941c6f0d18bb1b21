"""Figures as pictures, and the scripts that draw them on a page: what vl-convert is for."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any, Final

from paceline.report.html import drawing_script
from paceline.runs import write_atomically
from paceline.workloads.data.catalogue import default_data_dir

_SCALE: Final = 2.0


def write_pictures(spec: dict[str, Any], folder: Path, name: str) -> None:
    """Write one figure as SVG, PNG and PDF, on white."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(spec | {"background": "white"})
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    (folder / f"{name}.png").write_bytes(vl_convert.svg_to_png(svg, scale=_SCALE))
    (folder / f"{name}.pdf").write_bytes(vl_convert.svg_to_pdf(svg))


def page_scripts() -> str:
    """Give all that a page needs to draw its figures, in one script.

    Bundling takes seconds, so the bundle is kept in the cache folder until vl-convert or our own
    script changes.
    """
    import hashlib

    own = drawing_script()
    version = metadata.version("vl-convert-python")
    key = hashlib.sha256(f"{version}\n{own}".encode()).hexdigest()[:12]
    kept = default_data_dir() / "vega" / f"{key}.js"
    try:
        return kept.read_text(encoding="utf-8")
    except OSError:
        bundle = _bundled(own)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, bundle)
    except OSError:
        pass  # a cache folder that cannot be written only costs time
    return bundle


def _bundled(script: str) -> str:
    import vl_convert

    return str(vl_convert.javascript_bundle(script))
