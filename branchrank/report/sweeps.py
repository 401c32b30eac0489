"""The section on sweeps: quality over the values that an experiment file swept."""

from __future__ import annotations

import re

from branchrank.report import plots
from branchrank.report.blocks import Block, Paragraph, Section
from branchrank.report.plots import Swept
from branchrank.runs.run import RunData

#: The name that an experiment gives to a point of a sweep: ``name[rrf_k=10, vector_weight=0.5]``.
_SWEPT = re.compile(r"^(?P<name>[^\[]+)\[(?P<point>[\w.-]+=.*)\]$", re.DOTALL)
_SETTING = re.compile(r", (?=[\w.-]+=)")


def sweeps(run: RunData) -> Section | None:
    """Return a curve for each swept setting of each system; ``None`` without a sweep of two or more
    values."""
    blocks: list[Block] = []
    for name, points in _by_system(run).items():
        for axis in _axes(points):
            drawn = len(blocks) + 1
            blocks.append(plots.sweep(name, points, axis, run.primary.name, drawn))
    if not blocks:
        return None
    text = "Choosing the best point of a sweep favours it by chance: confirm it on other questions."
    return Section(title="Sweeps", blocks=(*blocks, Paragraph(text=text)))


def _by_system(run: RunData) -> dict[str, list[Swept]]:
    """The points of each sweep, by the name of the system that was swept."""
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
    """The settings that take two values or more in every point that names them."""
    named = points[0].values
    if any(each.values.keys() != named.keys() for each in points):
        return []
    return [key for key in named if len({each.values[key] for each in points}) > 1]
