"""The report sections about quality, latency and cost together, and about sweeps."""

from __future__ import annotations

import re

from branchrank.report import line_plots, plots
from branchrank.report.blocks import Block, Section
from branchrank.report.line_plots import Swept
from branchrank.report.rates import over
from branchrank.runs.estimates import choice, standings
from branchrank.runs.run import RunData
from branchrank.runs.words import margin, plural

#: A predictor name in a sweep, such as ``name[rrf_k=10, vector_weight=0.5]``.
_SWEPT = re.compile(r"^(?P<name>[^\[]+)\[(?P<point>[\w.-]+=.*)\]$", re.DOTALL)
_SETTING = re.compile(r", (?=[\w.-]+=)")


def trade_off(run: RunData) -> Section:
    """Return the section that shows quality, latency and LLM cost together."""
    found = standings(run)
    title = "Quality, latency and cost"
    if not found or not run.scores.answerable:
        return Section(title, ("Latency was not measured, so there is no trade-off to show.",))
    best, chosen = choice(run, found)
    measure, prices = run.primary.name, run.record.prices
    highest = max(each.quality for each in found)
    leaders = ", ".join(each.name for each in found if each.quality == highest)
    text = (
        f"Quality is {measure.replace('_', ' ')} over {over(run)}. The p95 is computed from "
        f"{plural(run.summary_rows[0].timed_queries, 'timed query')}, and the cost is the mean over "
        f"{plural(len(run.asked), 'question')}. Highest observed quality: {leaders}."
    )
    close = f"shown to be less than {margin(chosen.delta, measure)} worse than {chosen.best}"
    if others := [name for name in chosen.not_inferior if name != chosen.best]:
        text += (
            f" Systems {close}: {', '.join(others)}. The cheapest of these systems (if several cost the "
            f"same, the fastest) is {chosen.cheapest.name}."
        )
    else:
        text += f" No other system was {close}."
    unit = f"{prices.currency} per query" if prices else "LLM tokens per query"
    return Section(title, (plots.frontier(found, {each.name for each in best}, measure, unit), text))


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
    return Section("Sweeps", (*blocks, text))


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
