"""Charts against Vega-Lite's schema: what is left out where a report is written, to be quick."""

from typing import Any

import altair


def check(spec: dict[str, Any]) -> None:
    """Raise unless a chart is valid Vega-Lite, as Altair knows it."""
    if "facet" in spec:
        altair.FacetChart.from_dict(spec)
    elif "layer" in spec:
        altair.LayerChart.from_dict(spec)
    else:
        altair.Chart.from_dict(spec)
