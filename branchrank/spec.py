"""The description of a retrieval system as data, which TOML files contain and the engine runs.

The stages are branches, expand, fuse, cap, rescore, group, rerank, passages and top k. Every part of a system
is a frozen record, so it can be compared and hashed. All systems with the same parts up to a stage share the
results of this stage.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from branchrank.records import Record

Unit = Literal["chunk", "node", "span"]
FusionMethod = Literal["rrf", "convex", "dbsf", "score", "none"]
RerankMethod = Literal["none", "llm", "pointwise", "cross-encoder"]

#: Key in ``Meta(extra=...)`` of a field's recommended range. A value outside the range causes a warning.
RECOMMENDED = "recommended"


class Expand(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Expansion over the tree, which maps a branch's chunks to nodes with evidence and adds neighbouring
    nodes.
    """

    depth: Annotated[
        int, Meta(ge=0, le=4, description="steps through the tree from a section that the branch found")
    ] = 1
    siblings: Annotated[int, Meta(ge=0, le=50, description="siblings added per section")] = 2
    file_roots: Annotated[
        int, Meta(ge=0, le=50, description="files whose top section is added, best evidence first")
    ] = 5


class TreeSearch(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a ``tree`` branch. An LLM or the lexical score of each subtree selects the next nodes."""

    beam: Annotated[int, Meta(ge=1, le=100_000, description="nodes followed at each step")] = 4
    depth: Annotated[int, Meta(ge=1, le=100_000, description="maximum steps down the tree")] = 12
    max_steps: Annotated[
        int, Meta(ge=1, le=100_000, description="maximum LLM calls per question for steps")
    ] = 12
    step_candidates: Annotated[
        int, Meta(ge=1, le=100_000, description="children shown to the LLM in one call")
    ] = 24
    final_candidates: Annotated[
        int, Meta(ge=1, le=100_000, description="visited nodes shown to the final ranking")
    ] = 24
    steps_by: Literal["llm", "lexical"] = "lexical"
    final_by: Literal["llm", "lexical"] = "lexical"


class Branch(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A search that gives one ranked list, with the number of its results and its weight in the fusion.

    ``kind`` names a branch kind (:mod:`branchrank.systems.branches`), ``options`` are the options of this
    kind. With ``doubled`` the branch returns twice the k of the query instead of ``top_n`` results. A branch
    with ``expand`` returns nodes. The ``threshold`` ``calibrated`` is the threshold that was measured for the
    index's model.
    """

    kind: str
    unit: Unit = "chunk"
    top_n: Annotated[int, Meta(ge=1, le=100_000, description="results taken from the branch")] = 40
    weight: Annotated[float, Meta(ge=0.0, le=100.0, description="weight of the branch in the fusion")] = 1.0
    threshold: (
        Annotated[
            float,
            Meta(gt=0.0, le=4.0, description="the branch drops chunks at or past this squared L2 distance"),
        ]
        | Literal["calibrated"]
        | None
    ) = None
    doubled: bool = False
    expand: Expand | None = None
    tree: TreeSearch | None = None
    options: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def fused_unit(self) -> Unit:
        """The unit of the keys in the list that the branch passes to the fusion."""
        return "node" if self.expand is not None else self.unit


class Fuse(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The method that fuses the branches' lists, and the number of candidates that it keeps.

    ``method`` ``none`` keeps the scores of a single branch. ``unit_interval`` scales the scores to 0..1.
    """

    method: Annotated[
        FusionMethod,
        Meta(
            description="how the branches are fused; rrf: by ranks; score: cosine + half the share of the "
            "best BM25; convex, dbsf: by normalised scores; none: for one branch"
        ),
    ] = "rrf"
    k: Annotated[int, Meta(ge=1, le=100_000, description="constant k of RRF")] = 60
    cap: Annotated[
        int,
        Meta(
            ge=0,
            le=100_000,
            description="candidates kept after the fusion; 0: all",
            extra={RECOMMENDED: (20, 50)},
        ),
    ] = 0
    unit_interval: bool = False


class Rescore(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A second score for the first candidates, which is added to the score of the fusion.

    The method ``maxsim`` is late interaction, which compares the token vectors of the query and of each chunk
    (:mod:`branchrank.ranking.maxsim`). The model of the index computes the token vectors.
    """

    method: Annotated[
        Literal["none", "maxsim"],
        Meta(description="second score of the first candidates; maxsim: late interaction of token vectors"),
    ] = "none"
    candidates: Annotated[
        int, Meta(ge=1, le=1000, description="candidates of the first stage that get the second score")
    ] = 30
    weight: Annotated[
        float, Meta(ge=0.0, le=100.0, description="weight of the second score against that of the fusion")
    ] = 1.0


class Group(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Grouping by document, so that each document gives one hit, which is its best chunk."""

    by: Annotated[Literal["none", "document"], Meta(description="how results are grouped")] = "none"
    aggregate: Annotated[
        Literal["max", "avg"], Meta(description="how a document's score is made from its chunks")
    ] = "max"
    members: Annotated[int, Meta(ge=1, le=100_000, description="chunks kept per document")] = 3


class Rerank(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reranker, which is an LLM (listwise or yes/no log-probabilities), a CrossEncoder or ``none``."""

    method: Annotated[
        RerankMethod,
        Meta(
            description="reranker; llm: one listwise call; pointwise: yes/no log-probabilities; "
            "cross-encoder: a model"
        ),
    ] = "none"
    candidate_order: Annotated[
        Literal["shuffled", "fused"],
        Meta(description="order in which the LLM sees the candidates; shuffled: seeded and recorded"),
    ] = "shuffled"
    fusion_weight: Annotated[
        float,
        Meta(ge=0.0, le=1.0, description="weight of the reranker against the first stage; 1: reranker only"),
    ] = 1.0
    context_tokens: Annotated[
        int,
        Meta(ge=512, le=1_000_000, description="prompt budget in tokens; a larger pool takes two calls"),
    ] = 8000
    cross_encoder: Annotated[
        str,
        Meta(
            description="sentence-transformers CrossEncoder: a model name or path",
            extra={"reaches": "cross-encoder"},
        ),
    ] = ""


class Passages(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which passages of the ranked candidates are returned.

    With the ``order`` ``scores``, the passages of all candidate sections are ordered together by their
    scores. If there is a reranker, the reranker's order of the sections is used instead. A system that ranks
    chunks ignores ``order``.
    """

    order: Annotated[
        Literal["sections", "scores"],
        Meta(
            description="sections: one passage for each section, in their order; "
            "scores: all passages of the candidates by score fusion"
        ),
    ] = "sections"

    lines: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="length in lines that a hit is extended to inside its section; 0: not extended",
        ),
    ] = 0


class Endpoint(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The endpoint and the model of a system's LLM. An empty text means that the field is not set."""

    base_url: Annotated[
        str,
        Meta(
            description="OpenAI-compatible endpoint of the LLM; empty: no LLM is used",
            extra={"reaches": "LLM endpoint"},
        ),
    ] = ""
    model: Annotated[str, Meta(description="model of the LLM")] = ""


class System(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A complete retrieval system."""

    name: str
    branches: tuple[Branch, ...]
    fuse: Fuse = Fuse()
    rescore: Rescore = Rescore()
    group: Group = Group()
    rerank: Rerank = Rerank()
    passages: Passages = Passages()
    llm: Endpoint = Endpoint()
    returns: Annotated[
        Literal["passage", "section"],
        Meta(description="what a section's hit returns: its best passage, or all of its own lines"),
    ] = "passage"

    @property
    def searched(self) -> tuple[Branch, ...]:
        """The branches with a weight above 0. Branches with a weight of 0 are not run."""
        return tuple(branch for branch in self.branches if branch.weight > 0)

    @property
    def unit(self) -> Unit:
        """The unit of the keys in the fused list."""
        return self.branches[0].fused_unit

    @property
    def asks_llm(self) -> bool:
        """Whether any stage calls an LLM."""
        trees = (branch.tree for branch in self.searched if branch.tree is not None)
        walks = any("llm" in (tree.steps_by, tree.final_by) for tree in trees)
        return walks or self.rerank.method in ("llm", "pointwise")

    @property
    def llm_label(self) -> str:
        """The name of the LLM, or ``none``, for the report's column ``llm``."""
        return self.llm.model if self.asks_llm else "none"
