"""A system is data: branches -> expand -> fuse -> cap -> group -> rerank -> top k.

Every slot is a frozen record, so a system can be read from TOML, compared, and hashed; two systems that
share a slot share its results.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from branchrank.records import Record
from branchrank.settings.parts import reaches

BranchKind = Literal["dense", "bm25", "fts5", "grep", "qdrant-dense", "qdrant-sparse", "tree"]
Unit = Literal["chunk", "node"]
FusionMethod = Literal["rrf", "convex", "dbsf"]
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

    ``threshold`` (dense only) drops chunks at or past that squared L2 distance. ``doubled`` asks for
    twice the k of the query instead of ``top_n``. A branch with ``expand`` gives nodes.
    """

    kind: BranchKind
    unit: Unit = "chunk"
    top_n: PositiveInt = 40
    weight: Annotated[float, Meta(ge=0.0, le=100.0)] = 1.0
    threshold: float | None = None
    doubled: bool = False
    expand: Expand | None = None
    tree: TreeSearch | None = None

    @property
    def name(self) -> str:
        """The branch's name in traces and hits."""
        return f"{self.kind}({self.unit}s)" if self.kind in ("dense", "bm25") else self.kind

    @property
    def fused_unit(self) -> Unit:
        """What the keys are when they reach the fusion."""
        return "node" if self.expand is not None else self.unit


class Fuse(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the branches become one list, and how much of it goes on (``cap`` 0: all)."""

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
    cross_encoder: Annotated[str, reaches("cross-encoder")] = ""


class Endpoint(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The LLM of a system. Empty fields mean that none is named."""

    base_url: Annotated[str, reaches("LLM endpoint")] = ""
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


def problems(system: System) -> list[str]:
    """Everything that makes a system impossible, in words; empty when it can run."""
    found = []
    if not system.branches:
        return [f"system {system.name!r} has no branches"]
    if not system.searched:
        found.append(f"system {system.name!r} has no branch of a weight above 0")
    units = {branch.fused_unit for branch in system.branches}
    if len(units) > 1:
        found.append(f"system {system.name!r} fuses chunks with nodes: give every branch one unit")
    names = [branch.name for branch in system.branches]
    found.extend(
        f"system {system.name!r} has the branch {name} twice"
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    )
    for branch in system.branches:
        if branch.kind == "dense" and branch.unit == "node":
            found.append(f"system {system.name!r}: vectors are of chunks; map them to nodes with `expand`")
        if branch.expand is not None and branch.unit != "chunk":
            found.append(f"system {system.name!r}: only a branch of chunks can expand, not {branch.name}")
        if (branch.kind == "tree") != (branch.tree is not None):
            found.append(f"system {system.name!r}: `tree` settings belong to a branch of kind tree")
    if system.asks_llm and not (system.llm.base_url and system.llm.model):
        found.append(f"system {system.name!r} asks for an LLM but names no endpoint and model")
    if system.rerank.method == "cross-encoder" and not system.rerank.cross_encoder:
        found.append(f"system {system.name!r} asks for a cross-encoder but names no model")
    return found
