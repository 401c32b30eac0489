"""The built-in systems, configured with a workspace's settings or adapted to whole documents.

1. Document search is keyword, semantic or hybrid, with one or both branches of the ``sqlite`` predictor.
   Every score is in 0..1. Keyword search uses FTS5 scores. Semantic search uses scaled cosines, with negative
   values set to 0. Hybrid search uses RRF scores, scaled so that a hit that is first in both lists scores 1.
   Scores are not divided by the query's best score, so they can be compared between queries.
2. For test collections such as those of TREC and BEIR, a system ranks up to 1000 documents. Each branch
   returns a long list, so that recall at 100 and average precision are meaningful.
3. The ``bm25`` system then searches sections instead of chunks. A document in a BEIR folder is one section,
   so ``bm25`` scores each document as a whole.
4. A system that ranks chunks then returns the best chunk of each document (MaxP, Dai and Callan, SIGIR 2019).
   The results of a system that ranks sections are not grouped by document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from branchrank.core.errors import Remedy, UsageError, or_else, suggestion
from branchrank.core.settings import (
    DEFAULT,
    AgentSettings,
    BenchmarkSettings,
    EmbeddingSettings,
    GrepSettings,
    HybridSettings,
    IndexSettings,
    LateInteractionSettings,
    LocalSettings,
    PageindexSettings,
    QdrantSettings,
    Resolved,
    RetrievalSettings,
    SystemSettings,
)
from branchrank.core.settings.fields import with_values
from branchrank.core.settings.systems import BM25, DENSE
from branchrank.core.spec import AGENT_TOOLS, AgentSearch, Group, System

#: Names that stand for several predictors.
GROUPS: dict[str, tuple[str, ...]] = {
    "all": ("local", "pageindex", "hybrid"),
    "family": ("local", "pageindex", "hybrid", "grep", "qdrant", "sqlite", "late-interaction"),
}


def pageindex(settings: Resolved) -> System:
    """Return the ``pageindex`` system, which searches the tree from the root and ranks the visited nodes.

    With ``no_llm`` set, or without an LLM endpoint, the search and the ranking use lexical scores. Raises
    :class:`UsageError` for an LLM model without an endpoint, except with ``no_llm``.
    """
    only_final = settings.part(PageindexSettings).llm_final_only
    changes = {"branches.tree.tree.steps_by": "lexical"} if only_final else None
    return _with_llm_as_asked(settings, PageindexSettings, changes)


def agent(settings: Resolved, name: str = "agent", tools: tuple[str, ...] | None = None) -> System:
    """Return an agent with the given tools, or with those of the settings.

    An agent without tools returns nothing if it cites nothing. Raises :class:`UsageError` without an LLM
    endpoint, and for an unknown tool.
    """
    part = settings.part(AgentSettings)
    if not part.base_url:
        raise UsageError(
            f"the predictor {name} asks an LLM, but no LLM endpoint is set",
            remedy=Remedy("set an endpoint ({})", "--agent-base-url"),
        )
    if tools is None:
        tools = tuple(filter(None, map(str.strip, part.tools.split(",")))) or AGENT_TOOLS
    if wrong := [tool for tool in tools if tool not in AGENT_TOOLS]:
        raise UsageError(
            f"[agent] tools: there is no tool {wrong[0]!r}{or_else(wrong[0], AGENT_TOOLS)}",
            remedy=Remedy("use {}", "--agent-tools", ",".join(AGENT_TOOLS)),
        )
    options = {
        **msgspec.to_builtins(AgentSearch()),
        "tools": list(tools),
        "max_steps": part.max_steps,
        "context_tokens": part.context_tokens,
        "tool_calls": part.tool_calls,
        "fallback": "shown" if tools else "none",
    }
    return _laid(settings, AgentSettings, {"name": name, "branches.agent.options": options})


def grep(settings: Resolved) -> System:
    """Return the ``grep`` system, which uses RRF to fuse the results of grep and a vector search.

    The vector search drops chunks at or beyond a distance threshold. If the user does not set a threshold,
    the index's calibrated threshold is used.
    """
    by_default = settings.origins[f"{GrepSettings.section}.vector_score_threshold"] == DEFAULT
    return _laid(settings, GrepSettings, {"branches.dense.threshold": "calibrated"} if by_default else None)


def qdrant(settings: Resolved) -> System:
    """Return the ``qdrant`` system, which fuses dense and BM25 results with weighted RRF.

    If ``qdrant.collection`` is set, the system ranks spans, because the passages of the user's collection are
    not chunks of the index.
    """
    part = settings.part(QdrantSettings)
    weights = {
        "branches.qdrant-dense.weight": part.fusion_weight or float(not part.enable_hybrid),
        "branches.qdrant-sparse.weight": 1.0 - part.fusion_weight,
    }
    system = _laid(settings, QdrantSettings, weights)
    if part.is_existing:
        spans = tuple(replace(branch, unit="span") for branch in system.branches)
        system = replace(system, branches=spans)
    if part.enable_hybrid:
        return system
    only_dense = tuple(branch for branch in system.branches if branch.kind != "qdrant-sparse")
    return replace(system, branches=only_dense)


def sqlite(settings: Resolved) -> System:
    """Return the ``sqlite`` system, which fuses FTS5 and vectors, and groups the chunks by document."""
    alpha = settings.part(RetrievalSettings).hybrid_alpha
    weights = {"branches.fts5.weight": 1.0 - alpha, "branches.dense.weight": alpha}
    return _laid(settings, RetrievalSettings, weights)


def _laid(settings: Resolved, part: type[SystemSettings], changes: dict[str, Any] | None = None) -> System:
    """Return the system that a settings section configures. ``changes`` override the section's values."""
    values = settings.part(part)
    aliased = {address: getattr(values, name) for name, address in part.aliases.items()}
    return with_values(part.system, aliased | _hits(settings) | (changes or {}))


def _hits(settings: Resolved) -> dict[str, Any]:
    """Return the settings that determine which lines a hit contains."""
    part = settings.part(BenchmarkSettings)
    lines = {} if part.passage_lines is None else {"passages.lines": part.passage_lines}
    return {"returns": part.returns, **lines}


def _with_llm_as_asked(
    settings: Resolved, record: type[SystemSettings], changes: dict[str, Any] | None = None
) -> System:
    """Return the section's system, without LLM stages if ``no_llm`` is set or no LLM endpoint is set.

    Without an LLM, only a cross-encoder can rerank the results. Raises :class:`UsageError` for an LLM model
    without an endpoint, except with ``no_llm``.
    """
    system, part = _laid(settings, record, changes), settings.part(record)
    if part.base_url and not part.no_llm:
        return system
    if part.model and system.asks_llm and not part.no_llm:
        flag = f"--{part.section}".replace("_", "-")
        raise UsageError(
            f"[{part.section}] model is {part.model!r}, but no LLM endpoint is set",
            remedy=f"set an endpoint with {flag}-base-url, or run without an LLM: {flag}-no-llm",
        )
    without: dict[str, Any] = {}
    if any(branch.tree is not None for branch in system.branches):
        without = {"branches.tree.tree.steps_by": "lexical", "branches.tree.tree.final_by": "lexical"}
    if system.rerank.method in ("llm", "pointwise"):
        without["rerank.method"] = "none"
    return with_values(system, without)


#: The predictors that can't run without an LLM.
AGENTS: dict[str, Callable[[Resolved], System]] = {
    "agent": agent,
    "agent-grep": lambda settings: agent(settings, "agent-grep", ("grep_search", "read_file")),
    "agent-vector": lambda settings: agent(settings, "agent-vector", ("vector_search", "read_file")),
    "agent-memory": lambda settings: agent(settings, "agent-memory", ()),
}
#: The baselines ``bm25`` and ``dense`` are one branch alone. ``local`` fuses both over chunks with RRF.
BUILTIN: dict[str, Callable[[Resolved], System]] = {
    "local": lambda settings: _laid(settings, LocalSettings),
    "pageindex": pageindex,
    "hybrid": lambda settings: _with_llm_as_asked(settings, HybridSettings),
    "grep": grep,
    "qdrant": qdrant,
    "sqlite": sqlite,
    "late-interaction": lambda settings: _with_llm_as_asked(settings, LateInteractionSettings),
    **AGENTS,
    "bm25": lambda settings: with_values(BM25, _hits(settings)),
    "dense": lambda settings: with_values(DENSE, _hits(settings)),
}


def builtin_systems(names: tuple[str, ...], settings: Resolved) -> list[System]:
    """Return the systems for the names of predictors and groups, each once, in the given order.

    Raises :class:`UsageError` for an unknown name, and for a system that the settings do not allow.
    """
    makers = {**BUILTIN, settings.system.name: _own} if settings.system else BUILTIN
    return [makers[name](settings) for name in predictor_names(names, settings)]


def _own(settings: Resolved) -> System:
    """Return the workspace's default system, with the flags for the lines of a hit."""
    assert settings.system is not None
    origins = {"returns": "benchmark.returns", "passages.lines": "benchmark.passage_lines"}
    given = _hits(settings).items()
    flags = {
        address: value for address, value in given if settings.origins[origins[address]].startswith("flag")
    }
    return with_values(settings.system, flags)


def predictor_names(names: tuple[str, ...], settings: Resolved) -> tuple[str, ...]:
    """Return the names of predictors, each once, in the given order.

    The name of a group, such as ``all``, stands for the predictors in the group. Raises :class:`UsageError`
    for an unknown name.
    """
    spelled = [member for name in names for member in GROUPS.get(name, (name,))]
    own = [settings.system.name] if settings.system else []
    if unknown := [name for name in spelled if name not in (*BUILTIN, *own)]:
        known = [*own, *BUILTIN, *GROUPS]
        near = suggestion(unknown[0], known)
        raise UsageError(
            f"no predictor is called {unknown[0]!r}{near and '; ' + near}",
            remedy=f"choose from {', '.join(known)}, or give a class as module:Class",
        )
    return tuple(dict.fromkeys(spelled))


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


def document_system(system: System) -> System:
    """Return the system, under the same name, adapted to rank up to 1,000 documents.

    The candidate cap of a system that reranks is not changed, because the cost of reranking depends on the
    number of candidates.
    """
    branches = tuple(replace(branch, top_n=max(branch.top_n, DEPTH)) for branch in system.branches)
    if len(branches) == 1 and branches[0].kind == "bm25":
        return replace(system, branches=(replace(branches[0], unit="node"),), returns="section")
    fuse = system.fuse if system.reranks else replace(system.fuse, cap=0)
    deep = replace(system, branches=branches, fuse=fuse)
    if deep.unit != "chunk" or deep.group.by == "document":
        return deep
    return replace(deep, group=Group(by="document", members=1), passages=replace(system.passages, lines=0))
