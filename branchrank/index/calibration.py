"""The distance threshold that suits a model, measured with queries.

1. The distance of a query is that of its nearest chunk: squared L2 between unit vectors, 0 to 4.
2. A query whose distance is at or above the threshold gets no chunk. The suggested threshold keeps the
   nearest chunk of 95 in 100 queries.
3. A build uses titles of sections, drawn from the corpus by a seed, as probe queries. Their distances are
   distributed like those of people's questions. If over half of the probes get no chunk at the default
   threshold, the index stores the suggested one for systems with a ``calibrated`` threshold.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable

from branchrank.embedders.protocol import Vectors
from branchrank.index.manifest import DistanceCalibration
from branchrank.records import Node, Record
from branchrank.settings import DISTANCE_THRESHOLD
from branchrank.stores.vectors import LARGEST_DISTANCE, VectorStore, squared_distance

COVERAGE = 0.95
PROBES = 100
SEED = 42


class Calibration(Record, frozen=True, kw_only=True):
    """The distance threshold for one model, measured with a set of queries.

    ``best`` are the queries' nearest distances, ascending. ``suggested`` keeps the nearest chunk of 95 in
    100 queries; ``losing`` counts the queries that lose every chunk at ``threshold``.
    """

    threshold: float
    suggested: float
    losing: int
    best: tuple[float, ...]

    @property
    def empties(self) -> bool:
        """Whether over half of the queries lose every chunk at ``threshold``."""
        return 2 * self.losing > len(self.best)


def calibrate(distances: Iterable[float], threshold: float = DISTANCE_THRESHOLD) -> Calibration:
    """Suggest a threshold from queries' nearest distances. Raises ``ValueError`` when there are none.

    >>> found = calibrate([0.9, 1.1, 1.234])
    >>> found.suggested, found.losing
    (1.24, 3)
    """
    best = sorted(distances)
    if not best:
        raise ValueError("calibration needs queries")
    covering = best[math.ceil(COVERAGE * len(best)) - 1]
    # A chunk at the threshold is dropped, so the suggestion is above the last distance to keep.
    suggested = min(LARGEST_DISTANCE, math.floor(covering * 100 + 1) / 100)
    return Calibration(
        threshold=threshold,
        suggested=suggested,
        losing=sum(distance >= threshold for distance in best),
        best=tuple(best),
    )


def nearest_distances(
    vectors: VectorStore, embed: Callable[[str], Vectors], queries: Iterable[str]
) -> list[float]:
    """The distance of each query's nearest chunk. ``vectors`` is not empty."""
    return [squared_distance(vectors.search(embed(query), 1)[0].score) for query in queries]


def probe_title(node: Node) -> str:
    """What a probe asks for a section: its title, or its id if that is empty."""
    return node.title.strip() or node.id


def probe_queries(titles: Collection[str]) -> list[str]:
    """At most 100 distinct titles of sections, drawn by a fixed seed; the same for the same titles."""
    draw = random.Random(SEED)  # noqa: S311 - a seeded draw
    return draw.sample(sorted(titles), min(PROBES, len(titles)))


def distance_calibration(distances: Iterable[float]) -> DistanceCalibration:
    """The record that a build stores about its probes' distances."""
    found = calibrate(distances)
    return DistanceCalibration(
        probes=len(found.best),
        losing=found.losing,
        threshold=found.suggested if found.empties else DISTANCE_THRESHOLD,
    )
