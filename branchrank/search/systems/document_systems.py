"""Systems adapted to search or rank whole documents.

Document search is keyword, semantic or hybrid, with one or both branches of the ``sqlite`` predictor. Every
score is in 0..1. Keyword search uses FTS5 scores. Semantic search uses cosines, with negative values set to
0. Hybrid search uses RRF scores, scaled so that a hit that is first in both lists scores 1. Scores are not
divided by the query's best score, so they can be compared between queries.

For test collections such as those of TREC and BEIR, a system ranks up to 1000 documents.

1. Each branch returns a long list, so that recall at 100 and average precision are meaningful.
2. The ``bm25`` system searches sections instead of chunks. A document in a BEIR folder is one section, so
   ``bm25`` scores each document as a whole.
3. A system that ranks chunks returns the best chunk of each document (MaxP, Dai and Callan, SIGIR 2019). The
   results of a system that ranks sections are not grouped by document.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from branchrank.core.errors import UsageError
from branchrank.core.settings import EmbeddingSettings, IndexSettings, Resolved
from branchrank.core.spec import Group, System
from branchrank.search.systems.builtin import sqlite

Mode = Literal["keyword", "semantic", "hybrid"]

BRANCH_OF = {"keyword": "fts5", "semantic": "dense"}


def document_search(settings: Resolved, mode: Mode) -> System:
    """Return the system for a search mode.

    Raises :class:`UsageError` if the mode needs embeddings, but the model in ``[embedding]`` is not the
    index's.
    """
    model, embedder = settings.part(EmbeddingSettings).model, settings.part(IndexSettings).embedder
    if mode != "keyword" and model not in ("", embedder):
        raise UsageError(
            f"the model in [embedding] is {model!r}, but the index was embedded with {embedder!r}",
            remedy=f'set model = "{embedder}", or run branchrank index with --embedder {model}',
        )
    system = sqlite(settings)
    if mode == "hybrid":
        return system
    (branch,) = (each for each in system.branches if each.kind == BRANCH_OF[mode])
    return replace(
        system,
        branches=(replace(branch, weight=1.0),),
        fuse=replace(system.fuse, method="none"),
    )


#: The number of documents ranked for each query, as in trec_eval and BEIR.
DEPTH = 1000


def document_system(system: System, depth: int = DEPTH) -> System:
    """Return the system, under the same name, adapted to rank up to ``depth`` documents.

    The candidate cap of a system that reranks is not changed, because the cost of reranking depends on the
    number of candidates.
    """
    branches = tuple(replace(branch, top_n=max(branch.top_n, depth)) for branch in system.branches)
    if len(branches) == 1 and branches[0].kind == "bm25":
        return replace(system, branches=(replace(branches[0], unit="node"),), returns="section")
    fuse = system.fuse if system.reranks else replace(system.fuse, cap=0)
    deep = replace(system, branches=branches, fuse=fuse)
    if deep.unit != "chunk" or deep.group.by == "document":
        return deep
    return replace(deep, group=Group(by="document", members=1), passages=replace(system.passages, lines=0))
