"""Conversion of judged hits to TREC runs and qrels, and of TREC runs to rankings, in memory.

Every line of a TREC run has a document id. A hit that is credited with a gold item has the item's id, such as
``gold-1``. Of the hits on a gold page that are not credited with a gold item, the first hit has the page's
id, such as ``page-1``. The document id of any other hit is its span, such as ``source:12-30``. Characters
that TREC files don't allow are percent-encoded, and ``~2`` is added to an id that occurs a second time. In
the qrels, the grade of a gold item is its ``relevance`` (2 by default), and the grade of a page is 1. From
the exported run and qrels, ir-measures and trec_eval compute the same values as the ``graded`` mode of
:class:`~branchrank.measures.matching.Judged`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import numpy as np

from branchrank.measures.matching import (
    RELAXED_GAIN,
    Judged,
    gold_gains,
    gold_pages,
    without_excluded,
)
from branchrank.measures.measures import Ranking
from branchrank.records import Hit, Question, Scored


def question_qrels(question: Question) -> dict[str, int]:
    """Return the relevance of each gold item and gold page, by document id.

    The relevance of a gold item is its ``relevance`` (2 by default), and the relevance of a gold page is 1.
    Pages with only file-level gold are omitted, because every hit on such a page matches a gold item.
    """
    _, weak_pages = gold_pages(question)
    qrels = {f"gold-{number}": gain for number, gain in enumerate(gold_gains(question), start=1)}
    qrels |= {f"page-{number}": RELAXED_GAIN for number, weak in enumerate(weak_pages, start=1) if weak}
    return qrels


def question_run(hits: Sequence[Hit], judged: Judged, question: Question) -> list[Scored]:
    """Return the document ids for the n hits, best first, with the scores n, n-1, ..., 1.

    ``judged`` must contain the judgments of ``hits``. The scores are whole numbers, since trec_eval reads
    scores in single precision, in which close scores would become equal.
    """
    kept = without_excluded(hits, question)
    ids: dict[str, None] = {}
    for hit, judgment in zip(kept, judged.hits, strict=True):
        if judgment.gold is not None:
            name = f"gold-{judgment.gold + 1}"
        elif judgment.gain:
            name = f"page-{(judgment.page or 0) + 1}"
        else:
            span = f"{quote(hit.source, safe='/._-~')}:{hit.line_start}-{hit.line_end}"
            name, repeat = span, 1
            while name in ids:
                repeat += 1
                name = f"{span}~{repeat}"
        ids[name] = None
    return [Scored(name, float(len(ids) - place)) for place, name in enumerate(ids)]


def run_ranking(run: Sequence[Scored], qrels: Mapping[str, int]) -> Ranking:
    """Rank the hits in another program's TREC run in the same order as trec_eval, and judge the hits.

    Hits are sorted by score in single precision (descending), then by document id (descending). The ids must
    be distinct and the scores finite.

    Ranks are computed only for judged documents.
    """
    with np.errstate(over="ignore"):  # as in trec_eval, a score too large for single precision is infinite
        scores = np.array([score for _, score in run], dtype=np.float32)
    places = [place for place, (key, _) in enumerate(run) if key in qrels]
    ordered = np.sort(scores)
    not_above = np.searchsorted(ordered, scores[places], side="right")
    below = np.searchsorted(ordered, scores[places], side="left")
    gains = []
    for place, last, first in zip(places, not_above.tolist(), below.tolist(), strict=True):
        key, rank = run[place].key, len(run) - last + 1
        if last - first > 1:
            tied = np.flatnonzero(scores == scores[place]).tolist()
            rank += sum(run[other].key > key for other in tied)
        gains.append((rank, qrels[key]))
    return Ranking(gains=tuple(sorted(gains)), returned=len(run), gold=tuple(qrels.values()))
