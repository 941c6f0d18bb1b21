"""The scripts by which a page draws its figures: Vega-Lite, bundled, and a few lines of ours."""

from __future__ import annotations

import contextlib
import hashlib
from importlib import metadata

from paceline.reporting.html import drawing_script
from paceline.store.whole_files import write_atomically
from paceline.workloads.data.catalogue import default_data_dir


def page_scripts() -> str:
    """Give all that a page needs to draw its figures, in one script.

    Bundling takes seconds, so the bundle is kept in the cache folder until vl-convert or our own
    script changes.
    """
    own = drawing_script()
    version = metadata.version("vl-convert-python")
    key = hashlib.sha256(f"{version}\n{own}".encode()).hexdigest()[:12]
    kept = default_data_dir() / "vega" / f"{key}.js"
    with contextlib.suppress(OSError):
        return kept.read_text(encoding="utf-8")
    bundle = _bundled(own)
    with contextlib.suppress(OSError):  # a cache folder that cannot be written only costs time
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, bundle)
    return bundle


def _bundled(script: str) -> str:
    import vl_convert

    return str(vl_convert.javascript_bundle(script))
