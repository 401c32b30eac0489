"""The report section about sweeps, which shows quality against the values of each swept setting."""

from __future__ import annotations

import re

from branchrank.report import line_plots
from branchrank.report.blocks import Block, Paragraph, Section
from branchrank.report.line_plots import Swept
from branchrank.runs.run import RunData

#: A predictor name in a sweep, such as ``name[rrf_k=10, vector_weight=0.5]``.
_SWEPT = re.compile(r"^(?P<name>[^\[]+)\[(?P<point>[\w.-]+=.*)\]$", re.DOTALL)
_SETTING = re.compile(r", (?=[\w.-]+=)")


def sweeps(run: RunData) -> Section | None:
    """Return a section with one plot per swept setting and system, or ``None`` if the run has no sweep."""
    blocks: list[Block] = []
    for name, points in _by_system(run).items():
        for axis in _axes(points):
            drawn = len(blocks) + 1
            blocks.append(line_plots.sweep(name, points, axis, run.primary.name, drawn))
    if not blocks:
        return None
    text = "The best point of a sweep is often best by chance. Confirm the best point with other questions."
    return Section(title="Sweeps", blocks=(*blocks, Paragraph(text=text)))


def _by_system(run: RunData) -> dict[str, list[Swept]]:
    """Map the system name of each sweep, such as ``local``, to the sweep's points."""
    found: dict[str, list[Swept]] = {}
    for row in run.summary_rows:
        name = _SWEPT.match(row.predictor)
        estimate = row.estimates[run.primary.name]
        if name is None or estimate is None:
            continue
        pairs = (each.partition("=") for each in _SETTING.split(name["point"]))
        values = {key: value for key, _, value in pairs}
        found.setdefault(name["name"], []).append(Swept(name=row.predictor, values=values, estimate=estimate))
    return {name: points for name, points in found.items() if len(points) > 1}


def _axes(points: list[Swept]) -> list[str]:
    """Return the settings whose values vary, or an empty list if the systems vary different settings."""
    named = points[0].values
    if any(each.values.keys() != named.keys() for each in points):
        return []
    return [key for key in named if len({each.values[key] for each in points}) > 1]
