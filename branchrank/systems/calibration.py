"""The distance threshold that suits a model, learned from questions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from branchrank.index import Index
from branchrank.records import Record
from branchrank.systems.sources import squared_distance

COVERAGE = 0.95


class Calibration(Record, frozen=True, kw_only=True):
    """What a set of questions says of the distance threshold for one model.

    ``best`` are the questions' nearest distances, ascending. ``suggested`` keeps the nearest chunk of 95 of
    100 questions; ``losing`` counts the questions that lose every chunk at ``threshold``.
    """

    threshold: float
    suggested: float
    losing: int
    best: tuple[float, ...]

    @property
    def warning(self) -> str:
        """One line when over half of the questions lose the vector branch; else empty."""
        if 2 * self.losing <= len(self.best):
            return ""
        return (
            f"{self.losing} of {len(self.best)} questions have no chunk under the distance "
            f"{self.threshold:g}: for this model set vector_score_threshold = {self.suggested:g} in [grep]"
        )


def calibrate(index: Index, questions: Sequence[str], threshold: float = 0.5) -> Calibration:
    """Suggest a distance threshold for the index's model from questions. Raises ``ValueError`` for none."""
    if not questions:
        raise ValueError("calibration needs questions")
    near = [index.vectors.search(index.embedder.embed_query(question), 1)[0] for question in questions]
    best = sorted(squared_distance(entry.score) for entry in near)
    covering = best[math.ceil(COVERAGE * len(best)) - 1]
    # A distance at the threshold is dropped, so the suggestion lies above the last one that is kept.
    suggested = min(4.0, math.floor(covering * 100 + 1) / 100)
    return Calibration(
        threshold=threshold,
        suggested=suggested,
        losing=sum(distance >= threshold for distance in best),
        best=tuple(best),
    )
