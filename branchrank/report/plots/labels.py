"""Place the labels of points so that no label covers another label or a point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from branchrank.records import Record
from branchrank.report.plots.style import Frame

Side = Literal["left", "right"]

LINE_PIXELS = 15
_GAP = 4


class Label(Record, frozen=True, kw_only=True):
    """The position of a label, in pixels from the lower left corner of the plot.

    ``x`` is the position of the label's edge nearest to the point, and ``y`` is the vertical center of the
    label.
    """

    x: float
    y: float
    side: Side


class _Box(Record, frozen=True, kw_only=True):
    left: float
    right: float
    low: float
    high: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.low < other.high
            and other.low < self.high
        )


def place_labels(
    points: Sequence[tuple[float, float]],
    names: Sequence[str],
    radii: Sequence[float],
    frame: Frame,
) -> list[Label]:
    """Place a label beside each point, and move a label up or down if there is no room beside its point."""
    taken = [
        _Box(left=x - r, right=x + r, low=y - r, high=y + r) for (x, y), r in zip(points, radii, strict=True)
    ]
    found: dict[int, Label] = {}
    for number in sorted(range(len(points)), key=lambda each: (-points[each][1], names[each])):
        text = frame.text_pixels(names[number])
        for label in _choices(points[number], radii[number]):
            box = _box(label, text)
            if (box.left < 0 or box.right > frame.width) and text < frame.width / 2:
                continue
            if not any(box.meets(other) for other in taken):
                found[number] = label
                taken.append(box)
                break
    return [found[number] for number in range(len(points))]


def _choices(point: tuple[float, float], radius: float) -> Iterator[Label]:
    x, y = point
    sides: tuple[tuple[Side, float], ...] = (("right", x + radius + _GAP), ("left", x - radius - _GAP))
    for step in range(0, 1000 * LINE_PIXELS, 2):
        for sign in (1, -1) if step else (1,):
            for side, start in sides:
                yield Label(x=start, y=y + sign * step, side=side)


def _box(label: Label, text: float) -> _Box:
    left = label.x if label.side == "right" else label.x - text
    half = LINE_PIXELS / 2
    return _Box(left=left, right=left + text, low=label.y - half, high=label.y + half)
