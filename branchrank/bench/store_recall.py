"""Measure an approximate vector store's recall (the share of the nearest chunks that the store finds)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from branchrank.errors import BranchRankError
from branchrank.records import Question
from branchrank.runs.directory import IndexFacts
from branchrank.spec import System
from branchrank.stores.vectors import recall_against_exact
from branchrank.systems.branches import branch_kind
from branchrank.systems.engine import Engine


def searches_vectors(systems: Iterable[System]) -> int:
    """Return the largest number of hits that any system requests from a vector search (0 for none).

    >>> from branchrank.settings.systems import LOCAL
    >>> searches_vectors([LOCAL])
    40
    """
    depths = (
        branch.top_n
        for system in systems
        for branch in system.searched
        if branch_kind(branch.kind).needs_vector
    )
    return max(depths, default=0)


def with_recall(
    facts: IndexFacts, engine: Engine, systems: Iterable[System], questions: Sequence[Question]
) -> IndexFacts:
    """Add the recall of the vector store to ``facts`` if the vector search is approximate.

    If the recall can't be measured, for example because a question can't be embedded, only ``recall_depth``
    is added.
    """
    depth = searches_vectors(systems)
    if facts.vector_store == "exact" or not depth:
        return facts
    index = engine.index
    recall = None
    with contextlib.suppress(BranchRankError):
        vectors = [engine.sources.embedding(question.question) for question in questions]
        recall = recall_against_exact(index.vectors, index.exact_vectors, vectors, depth)
    return replace(facts, recall=recall, recall_depth=depth)
