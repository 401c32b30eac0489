"""A system is data: branches -> expand -> fuse -> cap -> rescore -> group -> rerank -> passages -> top k.

Every slot is a frozen record, so a system can be read from TOML, compared, and hashed; two systems that
share a slot share its results.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from branchrank.records import Record

Unit = Literal["chunk", "node", "span"]
FusionMethod = Literal["rrf", "convex", "dbsf", "score", "none"]
RerankMethod = Literal["none", "llm", "pointwise", "cross-encoder"]

#: Key in ``Meta(extra=...)`` of a field's recommended range; values outside it are allowed, with a warning.
RECOMMENDED = "recommended"


class Expand(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Expansion over the tree: map a branch's chunks to nodes with evidence, and add neighbouring nodes."""

    depth: Annotated[
        int, Meta(ge=0, le=4, description="steps through the tree from a section that the branch found")
    ] = 1
    siblings: Annotated[int, Meta(ge=0, le=50, description="siblings added per section")] = 2
    file_roots: Annotated[
        int, Meta(ge=0, le=50, description="files whose top section is added, best evidence first")
    ] = 5


class TreeSearch(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a ``tree`` branch chooses its steps: by an LLM, or by the lexical score of each subtree."""

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
    """A branch gives one ranked list: what it searches, how many results it takes, and its weight in the
    fusion.

    ``kind`` names a branch kind (:mod:`branchrank.systems.branches`), ``options`` are options of that kind.
    With ``doubled`` the branch returns twice the k of the query instead of ``top_n`` results. A branch with
    ``expand`` returns nodes. The ``threshold`` ``calibrated`` is the one that the index measured for its
    model.
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
        """The unit of the keys that the fusion gets."""
        return "node" if self.expand is not None else self.unit


class Fuse(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the branches' lists are fused, and how many candidates are kept.

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
    """A second score for the first candidates, added to that of the fusion.

    ``maxsim`` is late interaction: it compares the token vectors of the query and of each chunk
    (:mod:`branchrank.ranking.maxsim`), computed by the model of the index.
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
    """Grouping: one hit per document, its best chunk."""

    by: Annotated[Literal["none", "document"], Meta(description="how results are grouped")] = "none"
    aggregate: Annotated[
        Literal["max", "avg"], Meta(description="how a document's score is made from its chunks")
    ] = "max"
    members: Annotated[int, Meta(ge=1, le=100_000, description="chunks kept per document")] = 3


class Rerank(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last stage: none, one listwise LLM call, yes/no log-probabilities of an LLM, or a CrossEncoder."""

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

    With ``order`` ``scores`` all passages of all candidate sections are ordered together; a reranker's order
    of the sections takes precedence. It does not apply to a system that ranks chunks.
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
    """The LLM of a system. An empty field is not set."""

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
        """The branches that are run: those with a weight above 0."""
        return tuple(branch for branch in self.branches if branch.weight > 0)

    @property
    def unit(self) -> Unit:
        """The unit of the fused list."""
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
