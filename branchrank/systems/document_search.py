"""Keyword, semantic and hybrid search of documents, with one or both branches of the ``sqlite`` predictor.

Every score is in 0..1. Keyword search uses FTS5 scores. Semantic search uses cosines, with negative values
set to 0. Hybrid search uses RRF scores, scaled so that a hit that is first in both lists scores 1. Scores are
not divided by the query's best score, so they can be compared between queries.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from branchrank.errors import UsageError
from branchrank.settings import EmbeddingSettings, IndexSettings, Resolved
from branchrank.spec import System
from branchrank.systems.builtin import sqlite

Mode = Literal["keyword", "semantic", "hybrid"]

BRANCH_OF = {"keyword": "fts5", "semantic": "dense"}


def document_search(settings: Resolved, mode: Mode) -> System:
    """Return the system for a search mode.

    Raises :class:`UsageError` if the mode needs embeddings, but ``[embedding]`` does not contain the index's
    model.
    """
    if mode != "keyword":
        _check_section(settings, mode)
    system = sqlite(settings)
    if mode == "hybrid":
        return system
    (branch,) = (each for each in system.branches if each.kind == BRANCH_OF[mode])
    return msgspec.structs.replace(
        system,
        branches=(msgspec.structs.replace(branch, weight=1.0),),
        fuse=msgspec.structs.replace(system.fuse, method="none"),
    )


def _check_section(settings: Resolved, mode: Mode) -> None:
    model, embedder = settings.part(EmbeddingSettings).model, settings.part(IndexSettings).embedder
    if not model:
        raise UsageError(
            f"{mode} search needs embeddings, but branchrank.toml has no [embedding] section",
            remedy="use --mode keyword, or add this to branchrank.toml and index again:\n\n"
            f'    [embedding]\n    model = "{embedder}"\n',
        )
    if model != embedder:
        raise UsageError(
            f"the model in [embedding] is {model!r}, but the index was embedded with {embedder!r}",
            remedy=f'set model = "{embedder}", or run branchrank index with --embedder {model}',
        )
