"""What a system's settings say before the system runs: whether it can run, and what its answers contain."""

from __future__ import annotations

from branchrank.core.errors import UsageError
from branchrank.core.spec import AGENT, Branch, System
from branchrank.index.embedders import check_gives_tokens
from branchrank.index.embedders.protocol import NONE, no_vectors
from branchrank.search.systems.branches import branch_kind, label


def orders_passages(system: System) -> bool:
    """Return whether all passages of the candidate sections are ranked, not only the best of each section."""
    return system.passages.order != "sections" and system.returns == "passage"


def timed_together(system: System) -> bool:
    """Return whether the system's branches run in parallel.

    The durations of parallel branches can add up to more than the total duration.
    """
    return len(system.searched) > 1 and any(branch_kind(branch.kind).waits for branch in system.searched)


def depth(branch: Branch, k: int) -> int:
    """Return the number of entries that are requested from a branch for ``k`` hits."""
    return 2 * k if branch.doubled else branch.top_n


def most_hits(system: System, k: int) -> int | None:
    """Return the maximum number of hits in an answer, or ``None`` if there is no limit.

    The maximum is the sum of the branches' maximum list lengths, or the candidate cap if the cap is smaller.

    >>> from branchrank.core.spec import Branch, Fuse, System
    >>> branches = (Branch(kind="dense", top_n=40), Branch(kind="bm25", top_n=80))
    >>> most_hits(System(name="own", branches=branches), 10)
    120
    >>> most_hits(System(name="own", branches=branches, fuse=Fuse(cap=30)), 10)
    30
    """
    if orders_passages(system):
        return None
    limits = [system.fuse.cap] if system.fuse.cap else []
    if all(each.expand is None and not branch_kind(each.kind).own_depth for each in system.searched):
        limits.append(sum(depth(branch, k) for branch in system.searched))
    return min(limits, default=None)


def scaled_branches(system: System, scale: str) -> tuple[Branch, ...]:
    """Return the branches whose scores have this scale, without branches with ``expand`` set."""
    return tuple(
        branch
        for branch in system.searched
        if branch.expand is None and branch_kind(branch.kind).scale == scale
    )


def passage_evidence(system: System) -> frozenset[str]:
    """Return the kinds of evidence that the system's branches use (``vectors``, ``words``, ``other``).

    Branches that search another index are left out.
    """
    return frozenset(branch_kind(branch.kind).ranks_by for branch in system.searched if not branch.index)


def check_embedder(system: System, embedder: str, index: str = "") -> None:
    """Raise :class:`UsageError` if a system needs vectors that the embedder of an index does not produce.

    ``index`` is empty for the system's own index, or the name of an index that only branches search.
    """
    searched = [branch for branch in system.searched if branch.index == index]
    tools = {tool for branch in searched if branch.kind == AGENT for tool in branch.agent.tools}
    uses_vectors = not tools.isdisjoint(("vector_search", "hybrid_search"))
    if embedder == NONE and (
        uses_vectors or any(branch_kind(branch.kind).needs_vector for branch in searched)
    ):
        other = "agent-grep" if uses_vectors else "bm25"
        raise no_vectors(f"system {system.name!r} searches with vectors, but the index", other)
    if system.rescore.method == "maxsim" and not index:
        check_gives_tokens(embedder)


def problems(system: System) -> list[str]:
    """Return a message for each problem with a system. The list is empty if the system can run."""
    if not system.branches:
        return [f"system {system.name!r} has no branches"]
    found = [problem for branch in system.branches for problem in _branch_problems(branch)]
    if not found:
        found = _fusion_problems(system)
    if system.asks_llm and not system.llm.base_url:
        found.append("uses an LLM, but has no endpoint: set llm.base_url")
    if system.rerank.method == "cross-encoder" and not system.rerank.cross_encoder:
        found.append("reranks with a cross-encoder, but has no model: set rerank.cross_encoder")
    if system.unit != "chunk" and system.rescore.method == "maxsim" and (found or not _keeps_tokens(system)):
        found.append(
            f"rescores by maxsim, but ranks {system.unit}s instead of chunks: set rescore.method = 'none'"
        )
    if system.unit == "span" and system.rerank.method != "none":
        found.append("reranks spans, but only chunks and nodes can be reranked: set rerank.method = 'none'")
    if system.unit != "chunk" and system.group.by == "document":
        found.append(f"groups by document, but ranks {system.unit}s instead of chunks: set group.by = 'none'")
    if not found and system.passages.order != "sections":
        found += _passage_problems(system)
    return [f"system {system.name!r} {problem}" for problem in found]


def _keeps_tokens(system: System) -> bool:
    """Return whether the system ranks spans from a store that can contain token vectors."""
    return system.unit == "span" and any(branch_kind(each.kind).keeps_tokens for each in system.searched)


def _passage_problems(system: System) -> list[str]:
    if system.unit != "node":
        return [f"orders passages of sections, but its unit is {system.unit}: remove passages.order"]
    if not passage_evidence(system) & {"vectors", "words"}:
        return ["orders passages by score, but has no vector or keyword branch: remove passages.order"]
    return []


def _branch_problems(branch: Branch) -> list[str]:
    try:
        kind = branch_kind(branch.kind)
    except UsageError as error:
        return [f"has an unknown branch: {error.message}"]
    found = []
    if branch.unit not in kind.units:
        can = " or ".join(kind.units)
        found.append(f"has a branch {kind.name} with the unit {branch.unit}, which must be {can}")
    if branch.expand is not None and branch.unit != "chunk":
        found.append(
            f"has a branch of {branch.unit}s with expand, but only chunks can be expanded: remove expand"
        )
    return found + [f"has a branch that cannot run: {each}" for each in kind.problems(branch)]


def _fusion_problems(system: System) -> list[str]:
    found = []
    if not system.searched:
        found.append("has only branches with weight 0: set a weight above 0")
    if len({branch.fused_unit for branch in system.branches}) > 1:
        found.append("fuses chunks with nodes or spans: give all branches the same unit")
    names = [label(branch) for branch in system.branches]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    found += [f"has the branch {name} twice: remove one" for name in twice]
    if system.fuse.method == "score":
        found += [
            f"fuses by score, but the branch {label(branch)} has no scores: set fuse.method = 'rrf'"
            for branch in system.searched
            if branch.expand is None and branch_kind(branch.kind).scale == "none"
        ]
    if system.fuse.method == "none" and len(system.searched) > 1:
        found.append(
            f"has {len(system.searched)} branches, but fuse.method = 'none' is for one branch: use 'rrf'"
        )
    return found
