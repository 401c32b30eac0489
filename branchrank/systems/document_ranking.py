"""Systems adapted to rank up to 1000 documents, for test collections such as those of TREC and BEIR.

1. Each branch returns a long list, so that recall at 100 and average precision are meaningful.
2. The ``bm25`` system searches sections instead of chunks. A document in a BEIR folder is one section, so
   ``bm25`` scores each document as a whole.
3. A system that ranks chunks returns the best chunk of each document (MaxP, Dai and Callan, SIGIR 2019). The
   results of a system that ranks sections are not grouped by document.
"""

from __future__ import annotations

import msgspec

from branchrank.spec import Branch, Group, System

#: The number of documents ranked for each query, as in trec_eval and BEIR.
DEPTH = 1000


def document_system(system: System, depth: int = DEPTH) -> System:
    """Return the system, under the same name, adapted to rank up to ``depth`` documents.

    The candidate cap of a system that reranks is not changed, because the cost of reranking depends on the
    number of candidates.
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
