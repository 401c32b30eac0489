"""Systems that rank whole documents, deep: what collections of documents (TREC, BEIR) are scored on.

1. Each branch gives a long list, and none is cut, so that recall at 100 and average precision mean something.
2. BM25 alone searches whole documents: their sections, of which an entry of a BEIR folder has one.
3. A system that ranks chunks returns one hit for each document, its best chunk (MaxP: Dai and Callan, SIGIR
   2019). A system that ranks sections stays as it is.
"""

from __future__ import annotations

import msgspec

from branchrank.spec import Branch, Group, System

#: Documents that a run keeps for each query, as trec_eval and BEIR do.
DEPTH = 1000


def document_system(system: System, depth: int = DEPTH) -> System:
    """The system as a ranking of up to ``depth`` documents, under the same name.

    A system that asks an LLM or a cross-encoder keeps its cap: its candidates are what it costs.
    """
    branches = tuple(_deep(branch, depth) for branch in system.branches)
    if len(branches) == 1 and branches[0].kind == "bm25":
        node = msgspec.structs.replace(branches[0], unit="node")
        return msgspec.structs.replace(system, branches=(node,), returns="section")
    fuse = system.fuse
    if system.rerank.method == "none":
        fuse = msgspec.structs.replace(fuse, cap=0)
    deep = msgspec.structs.replace(system, branches=branches, fuse=fuse)
    if deep.unit != "chunk" or deep.group.by == "document":
        return deep
    passages = msgspec.structs.replace(system.passages, lines=0)
    return msgspec.structs.replace(deep, group=Group(by="document", members=1), passages=passages)


def _deep(branch: Branch, depth: int) -> Branch:
    return msgspec.structs.replace(branch, top_n=max(branch.top_n, depth))
