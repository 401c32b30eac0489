"""The order of hits in systems that can return several passages from the same section.

1. The passage score of a chunk is its cosine plus 0.5 times the ratio of its BM25 score to the best BM25
   score. If no branch searches vectors, the cosine is omitted. If no branch searches words, the BM25 term is
   omitted.
2. Without a reranker, the passages are ordered by their passage scores.
3. With a reranker, a passage's final score is ``1 / (i * j)``, where ``i`` is the reranker's rank of the
   section, and ``j`` is the rank of the passage within the section. The first five hits are two or three
   passages from the first section, one or two from the second, and one from the third.
4. If the reranker failed, only the best passage of each section is returned. The sections are in the
   reranker's fallback order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from branchrank.ranking.lists import RankedList, ranked
from branchrank.ranking.passage_choice import best_of_each, led_by_sections
from branchrank.records import Scored
from branchrank.spec import Fuse, System
from branchrank.systems.branches import branch_kind
from branchrank.systems.fusing import fuse
from branchrank.systems.query import Query
from branchrank.systems.sources import Sources

#: Whether a reranker ordered the sections. ``failed`` means that the reranker failed.
Reranked = Literal["no", "yes", "failed"]


class OrderedPassages(NamedTuple):
    """Chunks, best first, and a map from each chunk to its section."""

    ranking: RankedList
    sections: dict[str, str]


def passage_evidence(system: System) -> frozenset[str]:
    """Return the kinds of evidence that the system's branches use (``vectors``, ``words``, ``other``)."""
    return frozenset(branch_kind(branch.kind).ranks_by for branch in system.searched)


def ordered_passages(
    sources: Sources, system: System, query: Query, pool: Sequence[Scored], reranked: Reranked
) -> OrderedPassages:
    """Order the passages of the sections in ``pool``, which is the ranked list of the previous stage."""
    banned = sources.banned("chunk", query)
    section_of: dict[str, str] = {}
    for section in RankedList.of(pool).ids:
        for chunk in sources.index.chunks_of(section):
            if chunk.id not in banned:
                section_of.setdefault(chunk.id, section)
    evidence = passage_evidence(system)
    chunks = tuple(sorted(section_of))
    passages = sources.memo.get(
        ("passage scores", query.text, evidence, chunks),
        lambda: _by_score(sources, query.text, chunks, evidence),
    )
    if reranked == "no":
        return OrderedPassages(passages, section_of)
    led = led_by_sections if reranked == "yes" else best_of_each
    return OrderedPassages(led(passages, section_of, RankedList.of(pool).ids), section_of)


def _by_score(sources: Sources, query: str, chunks: Sequence[str], evidence: frozenset[str]) -> RankedList:
    lists: dict[str, RankedList] = {}
    if "vectors" in evidence:
        lists["vectors"] = ranked(sources.cosines(query, chunks))
    if "words" in evidence:
        lists["words"] = ranked(sources.bm25_scores(query, chunks))
    return fuse(lists, Fuse(method="score"), {}, shares=("words",))
