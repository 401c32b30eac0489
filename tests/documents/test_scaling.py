"""Reading is linear in time and bounded in output, for generated files of many shapes.

CPU time is that of a fresh child process, counted after its imports. ``make test`` reads a few of the
shapes for which a reader was once not linear, at a size at which it took minutes; ``make test-full`` reads
all of them and compares three sizes of a sample of the whole family.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.reading_cost import Cost, Meter
from support.shapes import family

#: Nodes and chunks together take at most so many bytes per byte of the file, beside 64 KiB.
GROWTH = 128
#: Each of these was quadratic, or far larger than its file.
KNOWN = [
    "md/opened-html/less",
    "md/opened-html/tag-start",
    "md/opened/component-name",
    "md/opened-heading/explicit-open",
    "md/heading-end/explicit",
    "md/heading/crumb",
    "md/heading/spaces",
    "md/front-blank/spaces",
    "rst/columns/grid",
    "rst/columns/simple",
    "long-title",
    "long-path",
    "deep-rst-path",
    "replacement",
    "replacement-lines",
]
#: Those that are read in a fraction of a second.
QUICK = ("md/heading-end/explicit", "md/heading/spaces", "rst/columns/grid", "deep-rst-path")
SAMPLE = [
    name
    for number, name in enumerate(family())
    if number % 61 == 0 or name in KNOWN or "/" not in name or name.startswith("rst/columns")
]


@pytest.fixture(scope="module")
def meter() -> Iterator[Meter]:
    with Meter() as meter:
        yield meter


def within_bounds(cost: Cost) -> bool:
    return cost.nodes + cost.chunks <= GROWTH * cost.size + 65_536


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in KNOWN],
)
def test_a_shape_that_was_not_linear_is_read_within_a_limit_of_time_and_output(
    meter: Meter, name: str
) -> None:
    cost = meter.measure(name, 250_000)
    assert cost is not None, "stopped by the limit of CPU time or memory"
    assert within_bounds(cost), cost


@pytest.mark.full
def test_one_long_line_takes_as_long_as_many_short_ones(meter: Meter) -> None:
    for _ in range(3):  # the other processes of a machine cost time, too
        line, lines = meter.measure("words-line", 1_000_000), meter.measure("words-lines", 1_000_000)
        assert line
        assert lines
        assert line.chunks < 1.1 * lines.chunks
        if line.seconds < 1.4 * lines.seconds:
            return
    pytest.fail(f"{line} for one line, {lines} for many")


@pytest.mark.full
@pytest.mark.parametrize("name", SAMPLE)
def test_four_times_the_file_takes_at_most_six_times_the_time(meter: Meter, name: str) -> None:
    size = 32_000
    costs = [meter.measure(name, size)]
    while costs[0] and costs[0].seconds < 0.1 and size < 2_000_000:
        size *= 2
        costs = [meter.measure(name, size)]
    least = [float("inf")] * 3
    for _ in range(5):  # the other processes of a machine cost time, too
        costs = [meter.measure(name, size * factor) for factor in (1, 2, 4)]
        assert all(costs), f"stopped by the limits at {size * 4} bytes: {costs}"
        assert all(within_bounds(cost) for cost in costs if cost), costs
        least = [min(known, cost.seconds) for known, cost in zip(least, costs, strict=True) if cost]
        if max(least) <= 6 * max(least[0], 0.1):
            return
    pytest.fail(f"not linear: {least}")
