"""The built-in systems, each a sentence made from its part's settings."""

from __future__ import annotations

from collections.abc import Callable

from branchrank.errors import UsageError, suggestion
from branchrank.settings import (
    BenchmarkSettings,
    GrepSettings,
    HybridSettings,
    LocalSettings,
    PageindexSettings,
    QdrantSettings,
    Resolved,
    RetrievalSettings,
)
from branchrank.systems.spec import Branch, Endpoint, Expand, Fuse, Group, Rerank, System, TreeSearch

#: Predictors that stand for several.
GROUPS: dict[str, tuple[str, ...]] = {
    "all": ("local", "pageindex", "hybrid"),
    "family": ("local", "pageindex", "hybrid", "grep", "qdrant", "sqlite"),
}


def local(settings: Resolved) -> System:
    """dense(chunks) + BM25(chunks) -> RRF."""
    part = settings.part(LocalSettings)
    return System(
        name="local",
        branches=(
            Branch(kind="dense", top_n=part.vector_top_n, weight=part.vector_weight),
            Branch(kind="bm25", top_n=part.bm25_top_n, weight=part.bm25_weight),
        ),
        fuse=Fuse(k=part.rrf_k),
        returns=settings.part(BenchmarkSettings).returns,
    )


def pageindex(settings: Resolved) -> System:
    """Tree search from the roots, by an LLM or lexically, then a final ranking of what was visited."""
    part = settings.part(PageindexSettings)
    return System(
        name="pageindex",
        branches=(
            Branch(
                kind="tree",
                unit="node",
                tree=TreeSearch(
                    beam=part.beam,
                    depth=part.depth,
                    max_steps=part.max_steps,
                    step_candidates=part.step_candidates,
                    final_candidates=part.final_candidates,
                    steps_by="lexical" if part.no_llm or part.llm_final_only else "llm",
                    final_by="lexical" if part.no_llm else "llm",
                ),
            ),
        ),
        llm=Endpoint(base_url=part.base_url, model=part.model),
        returns=settings.part(BenchmarkSettings).returns,
    )


def hybrid(settings: Resolved) -> System:
    """dense(chunks) -> nodes -> evidence -> neighbours; + BM25(nodes) -> RRF -> cap -> rerank."""
    part = settings.part(HybridSettings)
    reranks = not part.no_llm or part.reranker == "cross-encoder"
    return System(
        name="hybrid",
        branches=(
            Branch(
                kind="dense",
                top_n=part.vector_top_n,
                weight=part.vector_weight,
                expand=Expand(depth=part.neighbor_depth, siblings=part.siblings, file_roots=part.file_roots),
            ),
            Branch(kind="bm25", unit="node", top_n=part.bm25_top_n, weight=part.bm25_weight),
        ),
        fuse=Fuse(k=part.rrf_k, cap=part.candidate_cap),
        rerank=Rerank(
            method=part.reranker if reranks else "none",
            candidate_order=part.candidate_order,
            fusion_weight=part.rerank_fusion_weight,
            context_tokens=part.context_tokens,
            cross_encoder=part.cross_encoder,
        ),
        llm=Endpoint(base_url=part.base_url, model=part.model),
        returns=settings.part(BenchmarkSettings).returns,
    )


def grep(settings: Resolved) -> System:
    """Grep passages, mapped onto the chunks they overlap, + thresholded dense -> RRF."""
    part = settings.part(GrepSettings)
    return System(
        name="grep",
        branches=(
            Branch(kind="grep"),
            Branch(kind="dense", top_n=part.vector_top_n, threshold=part.vector_score_threshold),
        ),
        fuse=Fuse(k=part.rrf_k),
    )


def qdrant(settings: Resolved) -> System:
    """Qdrant dense + Qdrant sparse BM25, 2N each -> weighted RRF."""
    part = settings.part(QdrantSettings)
    branches = [Branch(kind="qdrant-dense", doubled=True, weight=part.fusion_weight)]
    if part.enable_hybrid:
        branches.append(Branch(kind="qdrant-sparse", doubled=True, weight=1.0 - part.fusion_weight))
    return System(name="qdrant", branches=tuple(branches), fuse=Fuse(k=part.rrf_k))


def sqlite(settings: Resolved) -> System:
    """FTS5 + dense -> weighted RRF -> one hit per document, its best chunk; scores in 0..1."""
    part = settings.part(RetrievalSettings)
    return System(
        name="sqlite",
        branches=(
            Branch(kind="fts5", top_n=part.candidate_k_keyword, weight=1.0 - part.hybrid_alpha),
            Branch(kind="dense", top_n=part.candidate_k_vector, weight=part.hybrid_alpha),
        ),
        fuse=Fuse(k=part.rrf_k, unit_interval=True),
        group=Group(by=part.group_by, aggregate=part.doc_agg, members=part.max_chunks_per_doc),
    )


BUILTIN: dict[str, Callable[[Resolved], System]] = {
    "local": local,
    "pageindex": pageindex,
    "hybrid": hybrid,
    "grep": grep,
    "qdrant": qdrant,
    "sqlite": sqlite,
}


def builtin_systems(names: tuple[str, ...], settings: Resolved) -> list[System]:
    """The systems that predictor names stand for, groups spelt out, each once, in the order given.

    Raises :class:`UsageError` for an unknown name.
    """
    spelt = [member for name in names for member in GROUPS.get(name, (name,))]
    unknown = [name for name in spelt if name not in BUILTIN]
    if unknown:
        near = suggestion(unknown[0], [*BUILTIN, *GROUPS])
        raise UsageError(
            f"no predictor is called {unknown[0]!r}{'; ' if near else ''}{near}",
            remedy=f"choose from {', '.join([*BUILTIN, *GROUPS])}, or give your own as module:Class",
        )
    return [BUILTIN[name](settings) for name in dict.fromkeys(spelt)]
