"""Checks that find invalid systems before anything is run."""

from __future__ import annotations

from branchrank.embedders import check_gives_tokens
from branchrank.embedders.nothing import NONE, no_vectors
from branchrank.errors import UsageError
from branchrank.spec import Branch, System
from branchrank.systems.branches import branch_kind, label
from branchrank.systems.passage_order import passage_evidence


def check_embedder(system: System, embedder: str) -> None:
    """Raise :class:`UsageError` when a system needs vectors that the embedder does not make."""
    if embedder == NONE and any(branch_kind(branch.kind).needs_vector for branch in system.searched):
        raise no_vectors(f"system {system.name!r} searches by vectors, and the index")
    if system.rescore.method == "maxsim":
        check_gives_tokens(embedder)


def problems(system: System) -> list[str]:
    """Describe every problem of a system; empty when it can run."""
    if not system.branches:
        return [f"system {system.name!r} has no branches"]
    found = [problem for branch in system.branches for problem in _branch_problems(branch)]
    if not found:
        found = _fusion_problems(system)
    if system.asks_llm and not system.llm.base_url:
        found.append("asks for an LLM but names no endpoint")
    if system.rerank.method == "cross-encoder" and not system.rerank.cross_encoder:
        found.append("asks for a cross-encoder but names no model")
    if system.unit != "chunk" and system.rescore.method == "maxsim" and (found or not _keeps_tokens(system)):
        found.append(f"rescores {system.unit}s by maxsim: only chunks have token vectors")
    if system.unit == "span" and system.rerank.method != "none":
        found.append("reranks spans: only chunks and nodes can be reranked")
    if system.unit != "chunk" and system.group.by == "document":
        found.append(f"groups {system.unit}s by document: only chunks can be grouped")
    if not found and system.passages.order == "scores":
        found += _passage_problems(system)
    return [f"system {system.name!r} {problem}" for problem in found]


def _keeps_tokens(system: System) -> bool:
    """Whether a store of the system's spans can hold their token vectors."""
    return system.unit == "span" and any(branch_kind(each.kind).keeps_tokens for each in system.searched)


def _passage_problems(system: System) -> list[str]:
    if system.unit != "node":
        return [f"orders the passages of sections, but ranks {system.unit}s: leave passages.order out"]
    if not passage_evidence(system) & {"vectors", "words"}:
        return ["orders passages by score, but no branch ranks by vectors or words"]
    return []


def _branch_problems(branch: Branch) -> list[str]:
    try:
        kind = branch_kind(branch.kind)
    except UsageError as error:
        return [f"names an unknown branch: {error.message}; {error.remedy}"]
    found = []
    if branch.unit not in kind.units:
        can = " or ".join(f"{unit}s" for unit in kind.units)
        found.append(f"asks {kind.name} for {branch.unit}s: it finds {can}")
    if branch.expand is not None and branch.unit != "chunk":
        found.append(f"expands {branch.unit}s: only chunks can be expanded over the tree")
    return found + [f"has a branch that cannot run: {each}" for each in kind.problems(branch)]


def _fusion_problems(system: System) -> list[str]:
    found = []
    if not system.searched:
        found.append("has no branch of a weight above 0")
    if len({branch.fused_unit for branch in system.branches}) > 1:
        found.append("fuses chunks with nodes or spans: give every branch one unit")
    names = [label(branch) for branch in system.branches]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    found += [f"has the branch {name} twice" for name in twice]
    if system.fuse.method == "score":
        found += [
            f"fuses {label(branch)} by score, which has ranks only: use the method rrf"
            for branch in system.searched
            if branch.expand is None and branch_kind(branch.kind).scale == "none"
        ]
    if system.fuse.method == "none" and len(system.searched) > 1:
        found.append(f"fuses {len(system.searched)} branches by the method none, which is for one")
    return found
