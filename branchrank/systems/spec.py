"""A system is data: branches -> expand -> fuse -> cap -> group -> rerank -> top k.

Every slot is a frozen record, so a system can be read from TOML, compared, and hashed; two systems that
share a slot share its results.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from branchrank.records import Record

Unit = Literal["chunk", "node", "span"]
FusionMethod = Literal["rrf", "convex", "dbsf", "none"]
RerankMethod = Literal["none", "llm", "pointwise", "cross-encoder"]

PositiveInt = Annotated[int, Meta(ge=1, le=100_000)]


class Expand(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Map a chunk branch onto nodes with evidence, and walk to their neighbours in the tree."""

    depth: Annotated[int, Meta(ge=0, le=4)] = 1
    siblings: Annotated[int, Meta(ge=0, le=50)] = 2
    file_roots: Annotated[int, Meta(ge=0, le=50)] = 5


class TreeSearch(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a ``tree`` branch walks: an LLM's choice, or the lexical score of each subtree."""

    beam: PositiveInt = 4
    depth: PositiveInt = 12
    max_steps: PositiveInt = 12
    step_candidates: PositiveInt = 24
    final_candidates: PositiveInt = 24
    steps_by: Literal["llm", "lexical"] = "lexical"
    final_by: Literal["llm", "lexical"] = "lexical"


class Branch(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ranked list: what is searched, how deep, and its weight in the fusion.

    ``kind`` names a branch kind (:mod:`branchrank.systems.branches`), ``options`` are that kind's own.
    ``threshold`` (dense only) drops chunks at or past that squared L2 distance. ``doubled`` asks for
    twice the k of the query instead of ``top_n``. A branch with ``expand`` gives nodes.
    """

    kind: str
    unit: Unit = "chunk"
    top_n: PositiveInt = 40
    weight: Annotated[float, Meta(ge=0.0, le=100.0)] = 1.0
    threshold: float | None = None
    doubled: bool = False
    expand: Expand | None = None
    tree: TreeSearch | None = None
    options: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def fused_unit(self) -> Unit:
        """What the keys are when they reach the fusion."""
        return "node" if self.expand is not None else self.unit


class Fuse(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the branches become one list, and how much of it goes on (``cap`` 0: all).

    ``method`` ``none`` keeps the scores of a single branch. ``unit_interval`` puts the scores into 0..1.
    """

    method: FusionMethod = "rrf"
    k: PositiveInt = 60
    cap: Annotated[int, Meta(ge=0, le=100_000)] = 0
    unit_interval: bool = False


class Group(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hit per document, its best chunk."""

    by: Literal["none", "document"] = "none"
    aggregate: Literal["max", "avg"] = "max"
    members: PositiveInt = 3


class Rerank(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last stage. ``fusion_weight`` is the reranker's share against the first stage; 1: alone."""

    method: RerankMethod = "none"
    candidate_order: Literal["shuffled", "fused"] = "shuffled"
    fusion_weight: Annotated[float, Meta(ge=0.0, le=1.0)] = 1.0
    context_tokens: Annotated[int, Meta(ge=512)] = 8000
    cross_encoder: str = ""


class Endpoint(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The LLM of a system. Empty fields mean that none is named."""

    base_url: str = ""
    model: str = ""


class System(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A retrieval system, whole."""

    name: str
    branches: tuple[Branch, ...]
    fuse: Fuse = Fuse()
    group: Group = Group()
    rerank: Rerank = Rerank()
    llm: Endpoint = Endpoint()
    returns: Literal["passage", "section"] = "passage"

    @property
    def searched(self) -> tuple[Branch, ...]:
        """The branches that are run: one of weight 0 contributes nothing and so costs nothing."""
        return tuple(branch for branch in self.branches if branch.weight > 0)

    @property
    def unit(self) -> Unit:
        """What the fused list holds."""
        return self.branches[0].fused_unit

    @property
    def asks_llm(self) -> bool:
        """Whether any stage calls an LLM."""
        trees = (branch.tree for branch in self.searched if branch.tree is not None)
        walks = any("llm" in (tree.steps_by, tree.final_by) for tree in trees)
        return walks or self.rerank.method in ("llm", "pointwise")

    @property
    def llm_label(self) -> str:
        """The report's column ``llm``: the model's name, or ``none``."""
        return self.llm.model if self.asks_llm else "none"
