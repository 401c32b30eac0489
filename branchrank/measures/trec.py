"""Between judged hits and TREC runs and qrels, without any file.

A run line needs a document id. A hit credited with a gold item takes the item's id, ``gold-1``; the
first other hit on a gold page takes the page's, ``page-1``; any other hit its span,
``source:12-30`` (characters that TREC files can't hold are percent-encoded, a repeat ends in ``~2``).
Qrels give gold items 2 and pages 1, so ir-measures and trec_eval compute the graded view of
:class:`~branchrank.measures.matching.Judged` from the two files alone.
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
    """Relevance by document id: 2 (or its own) per gold item, 1 per gold page that can be met without it."""
    _, weak_pages = gold_pages(question)
    qrels = {f"gold-{number}": gain for number, gain in enumerate(gold_gains(question), start=1)}
    qrels |= {f"page-{number}": RELAXED_GAIN for number, weak in enumerate(weak_pages, start=1) if weak}
    return qrels


def question_run(hits: Sequence[Hit], judged: Judged, question: Question) -> list[Scored]:
    """Document ids, best first, with the strictly decreasing scores n, n-1, ..., 1.

    ``judged`` must be the judgement of these hits. The scores are whole numbers because trec_eval
    keeps single precision, where close scores of our own would tie and be reordered by id.
    """
    kept = without_excluded(hits, question)
    ids: dict[str, None] = {}
    for hit, judgement in zip(kept, judged.hits, strict=True):
        if judgement.gold is not None:
            name = f"gold-{judgement.gold + 1}"
        elif judgement.gain:
            name = f"page-{(judgement.page or 0) + 1}"
        else:
            span = f"{quote(hit.source, safe='/._-~')}:{hit.line_start}-{hit.line_end}"
            name, repeat = span, 1
            while name in ids:
                repeat += 1
                name = f"{span}~{repeat}"
        ids[name] = None
    return [Scored(name, float(len(ids) - place)) for place, name in enumerate(ids)]


def run_ranking(run: Sequence[Scored], qrels: Mapping[str, int]) -> Ranking:
    """Judge a run made elsewhere as trec_eval does: by score in single precision, descending, then by
    document id, descending. Ids are distinct, scores finite.

    Only judged documents need a rank: one more than the scores above theirs and the ties that sort
    before them.
    """
    with np.errstate(over="ignore"):  # as in trec_eval, a score beyond single precision is infinite
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
