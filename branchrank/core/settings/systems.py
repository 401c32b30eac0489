"""The built-in systems with their defaults, and the settings that change them.

1. A built-in system is a record that contains the default values of the system's settings.
2. Most settings are aliases, each for one field of a system. For example, ``[local] rrf_k`` sets the field at
   the path ``fuse.k`` in the ``local`` system. An alias has the type, default, range and description of its
   field.
3. Settings that are not aliases are declared in this module's classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, cast

import msgspec
from msgspec import Meta

from branchrank.core.settings.fields import SEVERAL, Settings, hint_at, reaches, value_at
from branchrank.core.spec import (
    AGENT,
    AgentSearch,
    Branch,
    Expand,
    Fuse,
    Group,
    Passages,
    Rerank,
    Rescore,
    System,
    TreeSearch,
)

#: The dense branch of ``grep`` drops chunks at or above this squared L2 distance between unit vectors.
DISTANCE_THRESHOLD = 0.5

LOCAL = System(
    name="local",
    branches=(Branch(kind="dense", top_n=40), Branch(kind="bm25", top_n=80)),
    fuse=Fuse(k=60),
)
PAGEINDEX = System(
    name="pageindex",
    branches=(Branch(kind="tree", unit="node", tree=TreeSearch(steps_by="llm", final_by="llm")),),
)
HYBRID = System(
    name="hybrid",
    branches=(
        Branch(kind="dense", top_n=40, expand=Expand(depth=1, siblings=2, file_roots=5)),
        Branch(kind="bm25", unit="node", top_n=80),
    ),
    fuse=Fuse(k=60, cap=30),
    rerank=Rerank(method="llm"),
    passages=Passages(order="rrf"),
)
GREP = System(
    name="grep",
    branches=(Branch(kind="grep"), Branch(kind="dense", top_n=40, threshold=DISTANCE_THRESHOLD)),
    fuse=Fuse(k=60),
)
QDRANT = System(
    name="qdrant",
    branches=(
        Branch(kind="qdrant-dense", doubled=True, weight=0.5),
        Branch(kind="qdrant-sparse", doubled=True, weight=0.5),
    ),
    fuse=Fuse(k=60),
)
SQLITE = System(
    name="sqlite",
    branches=(Branch(kind="fts5", top_n=80, weight=0.4), Branch(kind="dense", top_n=80, weight=0.6)),
    fuse=Fuse(k=60, unit_interval=True),
    group=Group(by="document", aggregate="max", members=3),
)
LATE_INTERACTION = System(
    name="late-interaction",
    branches=(Branch(kind="dense", top_n=40), Branch(kind="bm25", top_n=80)),
    fuse=Fuse(method="score", cap=30),
    rescore=Rescore(method="maxsim", candidates=30),
    rerank=Rerank(method="llm"),
    passages=Passages(lines=25),
)
_SEARCH = AgentSearch()
AGENTS = System(
    name="agent",
    branches=(Branch(kind=AGENT, unit="span", top_n=10),),
    fuse=Fuse(method="none"),
)
BM25 = System(name="bm25", branches=(Branch(kind="bm25", top_n=80),))
DENSE = System(name="dense", branches=(Branch(kind="dense", top_n=40),))
#: The order of the passages of grep; ``none`` is another name for ``order``.
GrepRanking = Literal["order", "bm25", "raw", "none"]


class SystemSettings(Settings, frozen=True, kw_only=True):
    """Settings for one built-in system.

    The record has a field for each alias in ``aliases``, in addition to the fields that the class declares.
    """

    #: The built-in system, which contains the defaults.
    system: ClassVar[System]
    #: A map from each alias to the path of the system's field that it changes, such as ``fuse.k``.
    aliases: ClassVar[dict[str, str]]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Tell type checkers that :func:`alias_fields` adds fields at run time."""


S = TypeVar("S", bound=SystemSettings)


def alias_fields(system: System, **aliases: str) -> Callable[[type[S]], type[S]]:
    """Return a decorator that adds a field for each alias, with the type, range and default of its target."""

    def complete(part: type[S]) -> type[S]:
        fields = [
            (name, Annotated[hint_at(system, address)], value_at(system, address))
            for name, address in aliases.items()
        ]
        made = msgspec.defstruct(
            part.__name__,
            fields,
            bases=(part,),
            namespace={
                "__doc__": part.__doc__,
                "section": part.section or system.name.replace("-", "_"),
                "title": part.title or f"The {system.name} predictor",
                "system": system,
                "aliases": aliases,
            },
            module=part.__module__,
            frozen=True,
            kw_only=True,
        )
        return cast("type[S]", made)

    return complete


#: The aliases that several systems have.
_FUSION = {
    "vector_top_n": "branches.dense.top_n",
    "bm25_top_n": "branches.bm25.top_n",
    "fusion": "fuse.method",
    "rrf_k": "fuse.k",
    "bm25_weight": "branches.bm25.weight",
    "vector_weight": "branches.dense.weight",
}
_RERANKING = {
    "reranker": "rerank.method",
    "cross_encoder": "rerank.cross_encoder",
    "base_url": "llm.base_url",
    "model": "llm.model",
    "candidate_order": "rerank.candidate_order",
    "rerank_fusion_weight": "rerank.fusion_weight",
    "context_tokens": "rerank.context_tokens",
}


@alias_fields(LOCAL, **_FUSION)
class LocalSettings(SystemSettings, frozen=True, kw_only=True):
    """Settings for the ``local`` predictor, which fuses the vector and BM25 rankings of chunks with RRF."""


@alias_fields(
    HYBRID,
    **_FUSION,
    candidate_cap="fuse.cap",
    neighbor_depth="branches.dense.expand.depth",
    siblings="branches.dense.expand.siblings",
    file_roots="branches.dense.expand.file_roots",
    **_RERANKING,
    passage_order="passages.order",
)
class HybridSettings(SystemSettings, frozen=True, kw_only=True):
    """Settings for the ``hybrid`` predictor, which ranks sections with vectors, the tree, BM25 and an LLM.

    Attributes:
        no_llm: do not rerank with the LLM
    """

    no_llm: bool = False


@alias_fields(
    PAGEINDEX,
    beam="branches.tree.tree.beam",
    depth="branches.tree.tree.depth",
    step_candidates="branches.tree.tree.step_candidates",
    final_candidates="branches.tree.tree.final_candidates",
    max_steps="branches.tree.tree.max_steps",
    base_url="llm.base_url",
    model="llm.model",
)
class PageindexSettings(SystemSettings, frozen=True, kw_only=True):
    """Settings for the ``pageindex`` predictor, which searches the tree from the root downwards.

    Attributes:
        no_llm: search the tree by keywords, without an LLM
        llm_final_only: search the tree by keywords; use the LLM only for the final ranking
    """

    no_llm: bool = False
    llm_final_only: bool = False


@alias_fields(
    GREP,
    vector_score_threshold="branches.dense.threshold",
    vector_top_n="branches.dense.top_n",
    rrf_k="fuse.k",
)
class GrepSettings(SystemSettings, frozen=True, kw_only=True):
    """Settings for the ``grep`` predictor, which fuses a word search in the files with a vector search.

    Attributes:
        context_lines: lines shown before and after a match
        ranking: order of passages; order (or none): BM25; bm25: drop the lowest quarter; raw: by file, line
    """

    context_lines: Annotated[int, Meta(ge=0, le=100)] = 10
    ranking: GrepRanking = "order"


@alias_fields(QDRANT, fusion="fuse.method", rrf_k="fuse.k")
class QdrantSettings(SystemSettings, frozen=True, kw_only=True):
    """Settings for the ``qdrant`` predictor, which fuses dense and sparse rankings with weighted RRF.

    Attributes:
        url: URL of a Qdrant server; empty: embedded Qdrant
        collection: name of an existing collection, which is searched but not changed
        path: folder that contains a Qdrant shard, or a collection written by the local mode of qdrant-client
        fusion_weight: weight of the dense vectors; 0: sparse only, 1: dense only
        enable_hybrid: search the sparse vectors in addition to the dense vectors
        shards: number of shards of a new collection; 0: the server's default
        replication_factor: number of copies of each shard; 0: the server's default
        write_consistency: number of shard copies that must confirm a write; 0: the server's default
        on_disk: store the vectors of a new collection on the server's disk, not in memory
    """

    url: Annotated[str, reaches("Qdrant server")] = ""
    collection: Annotated[str, reaches("Qdrant collection")] = ""
    path: Annotated[str, reaches("Qdrant collection")] = ""
    fusion_weight: Annotated[float, Meta(ge=0.0, le=1.0)] = QDRANT.branches[0].weight
    enable_hybrid: bool = True
    shards: Annotated[int, Meta(ge=0, le=1024)] = 0
    replication_factor: Annotated[int, Meta(ge=0, le=64)] = 0
    write_consistency: Annotated[int, Meta(ge=0, le=64)] = 0
    on_disk: bool = False

    @property
    def is_existing(self) -> bool:
        """Whether the predictor searches an existing collection, instead of one made from the index."""
        return bool(self.collection or self.path)


@alias_fields(
    SQLITE,
    candidate_k_keyword="branches.fts5.top_n",
    candidate_k_vector="branches.dense.top_n",
    group_by="group.by",
    doc_agg="group.aggregate",
    max_chunks_per_doc="group.members",
    fusion="fuse.method",
    rrf_k="fuse.k",
)
class RetrievalSettings(SystemSettings, frozen=True, kw_only=True):
    """Settings for the ``sqlite`` predictor.

    The ``sqlite`` predictor fuses FTS5 and vector rankings with weighted RRF, and groups the results by
    document.

    Attributes:
        final_limit: number of documents or chunks to return
        hybrid_alpha: weight of the vectors; 0: keyword only, 1: semantic only
    """

    section: ClassVar[str] = "retrieval"
    title: ClassVar[str] = "The sqlite predictor and document search"
    flag_names: ClassVar[dict[str, str]] = {"hybrid_alpha": "--hybrid-alpha"}
    final_limit: Annotated[int, Meta(ge=1, le=1000)] = 12
    hybrid_alpha: Annotated[float, Meta(ge=0.0, le=1.0)] = SQLITE.branches[1].weight


@alias_fields(
    LATE_INTERACTION,
    vector_top_n="branches.dense.top_n",
    bm25_top_n="branches.bm25.top_n",
    candidate_cap="fuse.cap",
    bm25_weight="branches.bm25.weight",
    vector_weight="branches.dense.weight",
    maxsim_candidates="rescore.candidates",
    maxsim_weight="rescore.weight",
    **_RERANKING,
)
class LateInteractionSettings(SystemSettings, frozen=True, kw_only=True):
    """Settings for the ``late-interaction`` predictor, which reranks candidates by MaxSim.

    Attributes:
        no_llm: do not rerank with the LLM
    """

    no_llm: bool = False


@alias_fields(AGENTS, base_url="llm.base_url", model="llm.model")
class AgentSettings(SystemSettings, frozen=True, kw_only=True):
    """Settings for the ``agent`` predictors, in which an LLM searches with tools and cites what it found.

    Attributes:
        tools: tools of the predictor `agent`; empty: grep_search, vector_search, hybrid_search, read_file
        max_steps: maximum number of LLM calls per question
        context_tokens: maximum prompt tokens of one call; the oldest tool answers are dropped to keep it
        tool_calls: native: with the API's tools; json: one JSON object per reply, if a server ignores tools
    """

    title: ClassVar[str] = "The agent predictors"
    tools: Annotated[str, SEVERAL] = ""
    max_steps: Annotated[int, Meta(ge=1, le=1000)] = _SEARCH.max_steps
    context_tokens: Annotated[int, Meta(ge=3000, le=1_000_000)] = _SEARCH.context_tokens
    tool_calls: Literal["native", "json"] = _SEARCH.tool_calls


#: The flags of the LLMs of systems, for the remedies of errors.
URL_FLAGS = "--hybrid-base-url --pageindex-base-url --agent-base-url"
MODEL_FLAGS = "--hybrid-model --pageindex-model --agent-model"
NO_LLM_FLAGS = "--hybrid-no-llm --pageindex-no-llm"
#: The settings records of the built-in systems.
SYSTEM_PARTS: tuple[type[SystemSettings], ...] = (
    LocalSettings,
    HybridSettings,
    PageindexSettings,
    GrepSettings,
    QdrantSettings,
    RetrievalSettings,
    LateInteractionSettings,
    AgentSettings,
)
#: A map from the aliases of all systems to field paths. An alias has the same path in every system.
ALIASES: dict[str, str] = {name: address for part in SYSTEM_PARTS for name, address in part.aliases.items()}
#: In a system's table, the lines of a hit have the name of the flag for all systems, too.
ALIASES["passage_lines"] = "passages.lines"
