"""The built-in systems with their defaults, and the settings that change them.

1. A built-in system is a record; the default of each of its settings is the value in that record.
2. Most settings are aliases of an address: ``[local] rrf_k`` is ``fuse.k`` of the system ``local``. Their
   type, range and description are those of the field at that address.
3. Settings that do not correspond to one address are declared here, in the part's class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, cast

import msgspec
from msgspec import Meta

from branchrank.addresses import hint_at, value_at
from branchrank.settings.base import Settings, reaches
from branchrank.spec import Branch, Expand, Fuse, Group, Passages, Rerank, Rescore, System, TreeSearch

#: Squared L2 distance of unit vectors at or above which the dense branch of ``grep`` drops a chunk.
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
    passages=Passages(order="scores"),
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
BM25 = System(name="bm25", branches=(Branch(kind="bm25", top_n=80),))
DENSE = System(name="dense", branches=(Branch(kind="dense", top_n=40),))


class SystemSettings(Settings, frozen=True, kw_only=True):
    """Settings of one built-in system. The aliases become fields in addition to those of the class."""

    #: The system with its defaults.
    system: ClassVar[System]
    #: Setting -> address of the field that it sets.
    aliases: ClassVar[dict[str, str]]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Tell type checkers that the aliases are fields; they exist only at run time."""


S = TypeVar("S", bound=SystemSettings)


def alias_fields(system: System, **aliases: str) -> Callable[[type[S]], type[S]]:
    """Give a part a field for each alias, with the default, type and range of the address."""

    def complete(part: type[S]) -> type[S]:
        fields = [
            (name, _hint(system, address), value_at(system, address)) for name, address in aliases.items()
        ]
        made = msgspec.defstruct(
            part.__name__,
            fields,
            bases=(part,),
            namespace={"__doc__": part.__doc__, "system": system, "aliases": aliases},
            module=part.__module__,
            frozen=True,
            kw_only=True,
        )
        return cast("type[S]", made)

    return complete


def _hint(system: System, address: str) -> Any:
    """The annotation of the field at an address; for a branch's field the description names the branch."""
    bare, meta = hint_at(system, address)
    slot, _, rest = address.partition(".")
    named = f"the {rest.split('.')[0]} branch" if slot == "branches" else ""
    text = (meta.description or "").replace("the branch", named or "the branch")
    ranged = {name: getattr(meta, name) for name in ("ge", "gt", "le", "lt", "extra")}
    return Annotated[bare, Meta(description=text, **ranged)]


@alias_fields(
    LOCAL,
    vector_top_n="branches.dense.top_n",
    bm25_top_n="branches.bm25.top_n",
    fusion="fuse.method",
    rrf_k="fuse.k",
    bm25_weight="branches.bm25.weight",
    vector_weight="branches.dense.weight",
)
class LocalSettings(SystemSettings, frozen=True, kw_only=True):
    """The local predictor: vectors and BM25 over chunks, fused by RRF."""

    section: ClassVar[str] = "local"
    title: ClassVar[str] = "Predictor local"


@alias_fields(
    HYBRID,
    vector_top_n="branches.dense.top_n",
    bm25_top_n="branches.bm25.top_n",
    fusion="fuse.method",
    rrf_k="fuse.k",
    bm25_weight="branches.bm25.weight",
    vector_weight="branches.dense.weight",
    candidate_cap="fuse.cap",
    neighbor_depth="branches.dense.expand.depth",
    siblings="branches.dense.expand.siblings",
    file_roots="branches.dense.expand.file_roots",
    reranker="rerank.method",
    cross_encoder="rerank.cross_encoder",
    base_url="llm.base_url",
    model="llm.model",
    candidate_order="rerank.candidate_order",
    rerank_fusion_weight="rerank.fusion_weight",
    context_tokens="rerank.context_tokens",
    passage_order="passages.order",
)
class HybridSettings(SystemSettings, frozen=True, kw_only=True):
    """The hybrid predictor: vectors, tree expansion, RRF with BM25 over nodes, reranking, passages."""

    section: ClassVar[str] = "hybrid"
    title: ClassVar[str] = "Predictor hybrid"
    no_llm: Annotated[bool, Meta(description="do not rerank with the LLM")] = False


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
    """The pageindex predictor: a search down the tree from the roots."""

    section: ClassVar[str] = "pageindex"
    title: ClassVar[str] = "Predictor pageindex"
    no_llm: Annotated[bool, Meta(description="search the tree by words, without the LLM")] = False
    llm_final_only: Annotated[
        bool, Meta(description="search the tree by words; use the LLM for the final ranking only")
    ] = False


@alias_fields(
    GREP,
    vector_score_threshold="branches.dense.threshold",
    vector_top_n="branches.dense.top_n",
    rrf_k="fuse.k",
)
class GrepSettings(SystemSettings, frozen=True, kw_only=True):
    """The grep predictor: grep passages and vectors under a distance threshold."""

    section: ClassVar[str] = "grep"
    title: ClassVar[str] = "Predictor grep"
    context_lines: Annotated[int, Meta(ge=0, le=100, description="lines before and after a match")] = 10
    ranking: Annotated[
        Literal["none", "bm25"],
        Meta(description="filter of grep passages, which are in BM25 order; bm25: drop the lowest quarter"),
    ] = "none"


@alias_fields(QDRANT, fusion="fuse.method", rrf_k="fuse.k")
class QdrantSettings(SystemSettings, frozen=True, kw_only=True):
    """The qdrant predictor: dense and sparse vectors in one collection, fused by weighted RRF."""

    section: ClassVar[str] = "qdrant"
    title: ClassVar[str] = "Predictor qdrant"
    url: Annotated[
        str, reaches("Qdrant server"), Meta(description="URL of a Qdrant server; empty: embedded")
    ] = ""
    collection: Annotated[
        str,
        reaches("Qdrant collection"),
        Meta(description="existing collection to search, at the URL or in the path; it is only read"),
    ] = ""
    path: Annotated[
        str,
        reaches("Qdrant collection"),
        Meta(description="folder of the existing collection: a shard, or qdrant-client's local mode"),
    ] = ""
    fusion_weight: Annotated[
        float,
        Meta(ge=0.0, le=1.0, description="weight of dense; 0: sparse only, 1: dense only"),
    ] = QDRANT.branches[0].weight
    enable_hybrid: Annotated[bool, Meta(description="search sparse vectors besides the dense ones")] = True
    shards: Annotated[
        int,
        Meta(ge=0, le=1024, description="shards of a new collection on a server; 0: the server's default"),
    ] = 0
    replication_factor: Annotated[
        int, Meta(ge=0, le=64, description="copies of each shard on a server; 0: the server's default")
    ] = 0
    write_consistency: Annotated[
        int,
        Meta(ge=0, le=64, description="copies on a server that must confirm a write; 0: its default"),
    ] = 0
    on_disk: Annotated[
        bool, Meta(description="a new collection on a server keeps its vectors on disk, not in memory")
    ] = False

    @property
    def is_existing(self) -> bool:
        """Whether an existing collection is searched, instead of one made from the index's chunks."""
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
    """The sqlite predictor: FTS5 and vectors, fused by weighted RRF, grouped by document."""

    section: ClassVar[str] = "retrieval"
    title: ClassVar[str] = "Predictor sqlite and document search"
    flag_names: ClassVar[dict[str, str]] = {"hybrid_alpha": "--hybrid-alpha"}
    final_limit: Annotated[int, Meta(ge=1, le=1000, description="results returned")] = 12
    hybrid_alpha: Annotated[
        float, Meta(ge=0.0, le=1.0, description="weight of vectors; 0: keyword only, 1: semantic only")
    ] = SQLITE.branches[1].weight


@alias_fields(
    LATE_INTERACTION,
    vector_top_n="branches.dense.top_n",
    bm25_top_n="branches.bm25.top_n",
    candidate_cap="fuse.cap",
    bm25_weight="branches.bm25.weight",
    vector_weight="branches.dense.weight",
    maxsim_candidates="rescore.candidates",
    maxsim_weight="rescore.weight",
    reranker="rerank.method",
    cross_encoder="rerank.cross_encoder",
    base_url="llm.base_url",
    model="llm.model",
    candidate_order="rerank.candidate_order",
    rerank_fusion_weight="rerank.fusion_weight",
    context_tokens="rerank.context_tokens",
)
class LateInteractionSettings(SystemSettings, frozen=True, kw_only=True):
    """The late-interaction predictor: score fusion, then MaxSim of token vectors, then grown passages."""

    section: ClassVar[str] = "late_interaction"
    title: ClassVar[str] = "Predictor late-interaction"
    no_llm: Annotated[bool, Meta(description="do not rerank with the LLM")] = False


#: The parts that set a system.
SYSTEM_PARTS: tuple[type[SystemSettings], ...] = (
    LocalSettings,
    HybridSettings,
    PageindexSettings,
    GrepSettings,
    QdrantSettings,
    RetrievalSettings,
    LateInteractionSettings,
)
#: Setting -> address, for all parts. The same name has the same address in every part.
ALIASES: dict[str, str] = {name: address for part in SYSTEM_PARTS for name, address in part.aliases.items()}
