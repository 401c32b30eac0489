"""Measure the distances between queries and their nearest chunks, and suggest a distance threshold.

1. A query's distance is the squared L2 distance between the query's vector and the vector of the nearest
   chunk. All vectors have length 1, so squared distances are between 0 and 4.
2. If the distance between a query and its nearest chunk is at or above the threshold, vector search returns
   no chunks for the query. With the suggested threshold, at least 95% of the queries keep their nearest
   chunk.
3. A build uses a seeded random sample of section titles as probe queries, because titles and users' questions
   have similar distances to their nearest chunks. If more than half of the probe queries return no chunks at
   the default threshold, the index stores the suggested threshold. A system uses the stored threshold if the
   system's distance threshold is set to ``calibrated``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable

from branchrank.core.records import SEED, Node, Record
from branchrank.core.settings import DISTANCE_THRESHOLD
from branchrank.index.embedders.protocol import Vectors
from branchrank.index.manifest import DistanceCalibration
from branchrank.index.stores.vectors import LARGEST_DISTANCE, ExactVectors, squared_distance

COVERAGE = 0.95
PROBES = 100


class Calibration(Record, frozen=True, kw_only=True):
    """The suggested distance threshold for a model, measured with a set of queries.

    ``best`` contains the distance between each query and its nearest chunk, in ascending order. With the
    threshold ``suggested``, at least 95% of the queries keep their nearest chunk. ``losing`` is the number of
    queries that return no chunks at ``threshold``.
    """

    threshold: float
    suggested: float
    losing: int
    best: tuple[float, ...]


def calibrate(distances: Iterable[float], threshold: float = DISTANCE_THRESHOLD) -> Calibration:
    """Suggest a distance threshold. ``distances`` contains each query's distance to its nearest chunk.

    Raises ``ValueError`` if there are no distances.

    >>> found = calibrate([0.9, 1.1, 1.234])
    >>> found.suggested, found.losing
    (1.24, 3)
    """
    best = sorted(distances)
    if not best:
        raise ValueError("calibration needs at least one query")
    covering = best[math.ceil(COVERAGE * len(best)) - 1]
    # The threshold must be larger than ``covering``: a chunk whose distance equals the threshold is dropped.
    suggested = min(LARGEST_DISTANCE, math.floor(covering * 100 + 1) / 100)
    return Calibration(
        threshold=threshold,
        suggested=suggested,
        losing=sum(distance >= threshold for distance in best),
        best=tuple(best),
    )


def nearest_distances(
    vectors: ExactVectors, embed: Callable[[str], Vectors], queries: Iterable[str]
) -> list[float]:
    """Return the distance between each query and its nearest chunk. ``vectors`` must not be empty."""
    return [squared_distance(vectors.search(embed(query), 1)[0].score) for query in queries]


def probe_queries(nodes: Iterable[Node]) -> list[str]:
    """Return a seeded random sample of up to 100 titles of sections, with the id for an empty title."""
    titles = {node.title.strip() or node.id for node in nodes if node.line_start is not None}
    draw = random.Random(SEED)  # noqa: S311 - a seeded draw
    return draw.sample(sorted(titles), min(PROBES, len(titles)))


def distance_calibration(distances: Iterable[float]) -> DistanceCalibration:
    """Return the calibration that a build stores, computed from the distances of the probe queries."""
    found = calibrate(distances)
    empties = 2 * found.losing > len(found.best)
    return DistanceCalibration(
        probes=len(found.best),
        losing=found.losing,
        threshold=found.suggested if empties else DISTANCE_THRESHOLD,
    )
