"""Retrieval systems as records, which can be read from TOML files.

A system has the stages branches, expand, fuse, cap, rescore, group, rerank, passages and top k. The parts of
a system are immutable records, which can be compared and hashed. Systems that are identical up to and
including a stage share the results of that stage.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from branchrank.core.records import Record

Unit = Literal["chunk", "node", "span"]
FusionMethod = Literal["rrf", "convex", "dbsf", "score", "none"]
RerankMethod = Literal["none", "llm", "pointwise", "cross-encoder"]

#: The key of a field's recommended range in ``Meta(extra=...)``. A value outside this range causes a warning.
RECOMMENDED = "recommended"
#: The kind of a branch in which an LLM searches with tools.
AGENT = "agent"
AgentTool = Literal["grep_search", "vector_search", "hybrid_search", "read_file"]
AGENT_TOOLS: tuple[AgentTool, ...] = get_args(AgentTool)


class Expand(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for adding neighboring tree nodes to the results of a branch.

    Before neighbors are added, each chunk that the branch found is replaced with the chunk's node.

    Attributes:
        depth: neighbors up to this many steps away in the tree are added to the sections that the branch
            found; 0: no section is added
        siblings: siblings added per section
        file_roots: maximum number of files whose top-level section is added to the results of the branch,
            starting with the files that contain the highest-scoring sections
    """

    depth: Annotated[int, Meta(ge=0, le=4)] = 1
    siblings: Annotated[int, Meta(ge=0, le=50)] = 2
    file_roots: Annotated[int, Meta(ge=0, le=50)] = 5


class TreeSearch(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for a ``tree`` branch.

    In each step, an LLM or the lexical scores of the subtrees determine the next nodes.

    Attributes:
        beam: number of nodes followed at each step
        depth: maximum number of steps down the tree
        max_steps: maximum number of LLM calls that select nodes, per question
        step_candidates: number of child nodes that are shown to the LLM in one call
        final_candidates: number of visited nodes that are ranked at the end
    """

    beam: Annotated[int, Meta(ge=1, le=100_000)] = 4
    depth: Annotated[int, Meta(ge=1, le=100_000)] = 12
    max_steps: Annotated[int, Meta(ge=1, le=100_000)] = 12
    step_candidates: Annotated[int, Meta(ge=1, le=100_000)] = 24
    final_candidates: Annotated[int, Meta(ge=1, le=100_000)] = 24
    steps_by: Literal["llm", "lexical"] = "lexical"
    final_by: Literal["llm", "lexical"] = "lexical"


class AgentSearch(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of an ``agent`` branch, in which an LLM searches with tools.

    Attributes:
        tools: tools that the LLM may call, besides `answer`
        max_steps: maximum number of LLM calls per question
        context_tokens: maximum prompt tokens of one call; the oldest tool answers are dropped to keep it
        prompt: version of the system prompt
        tool_calls: native: with the API's tools; json: one JSON object per reply, if a server ignores tools
        fallback: passages if the LLM gives no answer; shown: those that the tools returned; none
    """

    tools: tuple[AgentTool, ...] = AGENT_TOOLS
    max_steps: Annotated[int, Meta(ge=1, le=1000)] = 8
    context_tokens: Annotated[int, Meta(ge=1000, le=1_000_000)] = 16_000
    prompt: Literal[1] = 1
    tool_calls: Literal["native", "json"] = "native"
    fallback: Literal["shown", "none"] = "shown"


class Branch(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A search that produces one ranked list.

    ``kind`` is the kind of the branch (:mod:`branchrank.search.systems.branches`), and ``options`` are the
    settings specific to this kind. If ``doubled`` is true, the branch ignores ``top_n`` and returns twice as
    many results as the query requests. If ``expand`` is set, the branch returns nodes. If ``threshold`` is
    ``calibrated``, the branch uses the threshold that was measured for the index's model.

    Attributes:
        top_n: number of results that the branch returns
        weight: weight of the branch in the fusion
        threshold: chunks at or above this squared L2 distance are dropped
        index: index of the experiment whose vectors the branch searches; empty: that of the system
    """

    kind: str
    unit: Unit = "chunk"
    top_n: Annotated[int, Meta(ge=1, le=100_000)] = 40
    weight: Annotated[float, Meta(ge=0.0, le=100.0)] = 1.0
    threshold: Annotated[float, Meta(gt=0.0, le=4.0)] | Literal["calibrated"] | None = None
    doubled: bool = False
    index: str = ""
    expand: Expand | None = None
    tree: TreeSearch | None = None
    options: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def agent(self) -> AgentSearch:
        """The options of an ``agent`` branch. Raises ``msgspec.ValidationError`` for an invalid option."""
        return msgspec.convert(self.options, AgentSearch)

    @property
    def fused_unit(self) -> Unit:
        """The kind of items (chunks, nodes or spans) that the branch passes to the fusion."""
        return "node" if self.expand is not None else self.unit


class Fuse(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for the fusion of the branches' lists.

    The method ``none`` requires a single branch, whose scores are not changed. If ``unit_interval`` is true,
    fused scores are scaled to the range from 0 to 1.

    Attributes:
        method: how the branches are fused; rrf: by ranks; score: cosine + 0.5 * BM25 score / the query's best
            BM25 score; convex, dbsf: by normalized scores; none: for one branch
        k: constant k of RRF
        cap: number of candidates kept after the fusion; 0: all
    """

    method: FusionMethod = "rrf"
    k: Annotated[int, Meta(ge=1, le=100_000)] = 60
    cap: Annotated[int, Meta(ge=0, le=100_000, extra={RECOMMENDED: (20, 50)})] = 0
    unit_interval: bool = False


class Rescore(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for a second score, which is added to the fusion score of the best candidates.

    The method ``maxsim`` is late interaction (:mod:`branchrank.index.maxsim`). Late interaction compares
    the query's token vectors with the token vectors of each chunk. The index's embedding model computes the
    token vectors.

    Attributes:
        method: second score for the best candidates; maxsim: late interaction of token vectors
        candidates: number of top-ranked candidates for which a MaxSim score is computed
        weight: weight of the MaxSim score, relative to a fusion score of weight 1
    """

    method: Literal["none", "maxsim"] = "none"
    candidates: Annotated[int, Meta(ge=1, le=1000)] = 30
    weight: Annotated[float, Meta(ge=0.0, le=100.0)] = 1.0


class Group(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for grouping by document, which returns each document once, with the document's best chunk.

    Attributes:
        by: how results are grouped
        aggregate: how a document's score is computed from its chunks' scores
        members: chunks kept per document
    """

    by: Literal["none", "document"] = "none"
    aggregate: Literal["max", "avg"] = "max"
    members: Annotated[int, Meta(ge=1, le=100_000)] = 3


class Rerank(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for the reranker, which is a CrossEncoder or an LLM.

    Attributes:
        method: reranker; llm: one listwise call; pointwise: yes/no log-probabilities; cross-encoder: a model
        candidate_order: order in which the LLM sees the candidates; shuffled: random with a recorded seed
        fusion_weight: weight of the reranker's order in the final order; 1: reranker only; 0: no reranking
        context_tokens: maximum prompt tokens; if the candidates do not fit, the LLM is called twice
        cross_encoder: sentence-transformers CrossEncoder: a model name or path
    """

    method: RerankMethod = "none"
    candidate_order: Literal["shuffled", "fused"] = "shuffled"
    fusion_weight: Annotated[float, Meta(ge=0.0, le=1.0)] = 1.0
    context_tokens: Annotated[int, Meta(ge=512, le=1_000_000)] = 8000
    cross_encoder: Annotated[str, Meta(extra={"reaches": "cross-encoder"})] = ""


class Passages(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that determine which passages from the ranked candidates are returned.

    If ``order`` is ``rrf`` or ``scores``, the passages from all candidate sections are sorted together
    (:mod:`branchrank.search.systems.hits`). If a reranker ranked the sections, the best passage of each
    section comes first, in the order of the reranker. Systems that rank chunks ignore ``order``.

    Attributes:
        order: rrf: all passages of the sections, by RRF over the section's rank and the passage's ranks in
            the vector and BM25 lists; scores: all passages of the sections, by cosine and BM25 score;
            sections: one passage per section, in the order of the sections
        lines: number of lines to which a hit is extended within its section; 0: not extended
    """

    order: Literal["sections", "scores", "rrf"] = "sections"
    lines: Annotated[int, Meta(ge=0, le=10_000)] = 0


class LLMEndpoint(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The endpoint and the model for a system's LLM calls. Fields that are not set are empty strings.

    Attributes:
        base_url: OpenAI-compatible endpoint of the LLM; empty: no LLM is used
        model: model of the LLM
    """

    base_url: Annotated[str, Meta(extra={"reaches": "LLM endpoint"})] = ""
    model: str = ""


class System(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A complete retrieval system.

    Attributes:
        returns: text of a hit on a section; passage: the section's best passage; section: all lines of the
            section before its first subsection
    """

    name: str
    branches: tuple[Branch, ...]
    fuse: Fuse = Fuse()
    rescore: Rescore = Rescore()
    group: Group = Group()
    rerank: Rerank = Rerank()
    passages: Passages = Passages()
    llm: LLMEndpoint = LLMEndpoint()
    returns: Literal["passage", "section"] = "passage"

    @property
    def searched(self) -> tuple[Branch, ...]:
        """The branches that are searched. Branches with weight 0 are skipped."""
        return tuple(branch for branch in self.branches if branch.weight > 0)

    @property
    def other_indexes(self) -> tuple[str, ...]:
        """The names of the indexes that only branches of the system search."""
        return tuple(dict.fromkeys(branch.index for branch in self.branches if branch.index))

    @property
    def unit(self) -> Unit:
        """The kind of items (chunks, nodes or spans) in the fused list."""
        return self.branches[0].fused_unit

    @property
    def adds_scores(self) -> bool:
        """Whether a branch's scores are added to other scores, or clipped to 0..1."""
        return self.fuse.method == "score" or self.fuse.unit_interval or self.rescore.method != "none"

    @property
    def reranks(self) -> bool:
        """Whether a reranker is run. A reranker with weight 0 is skipped."""
        return self.rerank.method != "none" and self.rerank.fusion_weight > 0

    @property
    def has_agent(self) -> bool:
        """Whether an LLM searches with tools in one of the branches."""
        return any(branch.kind == AGENT for branch in self.searched)

    @property
    def asks_llm(self) -> bool:
        """Whether any stage of the system calls an LLM."""
        trees = (branch.tree for branch in self.searched if branch.tree is not None)
        walks = any("llm" in (tree.steps_by, tree.final_by) for tree in trees)
        return walks or self.has_agent or (self.reranks and self.rerank.method in ("llm", "pointwise"))

    @property
    def llm_label(self) -> str:
        """The name of the LLM (or ``none``) for the ``llm`` column in reports."""
        return self.llm.model if self.asks_llm else "none"
