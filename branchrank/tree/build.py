"""Build one tree of nodes from the documents of a corpus.

1. The root (id ``/``) represents the corpus. The parent of a document is the document whose toctree names
   it first. If no toctree names it, its parent is its folder (id ``path/``), and the parent of a folder is
   the folder above. So a folder has a node only if a document below it is in no toctree.
2. A document's children are its own sections, then the documents in its toctrees, in toctree order. A
   folder's children are sorted by name.
3. A node's depth is one more than its parent's, whatever their kinds. A breadcrumb starts at the document's
   title, because the nodes above the document can change with any toctree.
4. A node's text is the text of its own blocks. Its summary is the first sentences of its prose and, if it
   has children, their titles.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from branchrank.corpus.document import Block, Document
from branchrank.corpus.sections import breadcrumbs
from branchrank.records import Node, NodeKind
from branchrank.tree.toctree import toctree_parents

ROOT_ID = "/"
SUMMARY_LENGTH = 300

_SENTENCE_END = re.compile(r"[.!?:。！？](?=\s)")


class _Draft(NamedTuple):
    """A node without the fields that depend on its place in the tree; ``children`` is filled gradually."""

    node: Node
    prose: str
    children: list[str]


def build_nodes(documents: Sequence[Document], corpus_name: str) -> tuple[list[Node], list[str]]:
    """Return the nodes of a corpus in pre-order, and notes about toctree entries that were ignored.

    The order of ``documents`` doesn't matter. An id changes only if a heading or a path in it changes.
    """
    parents, notes = toctree_parents(documents)
    drafts = {ROOT_ID: _draft_above(ROOT_ID, corpus_name)}
    by_source = {document.source: document for document in documents}
    for source in sorted(by_source):
        drafts.update(_draft_document(by_source[source]))
    for source, parent in parents.items():
        drafts[parent].children.append(source)
    _hang_below_folders((source for source in by_source if source not in parents), drafts)
    return _place(drafts), notes


def block_text(blocks: Iterable[Block]) -> str:
    """Join the text of blocks: a blank line between blocks, but not inside a table or list."""
    text = ""
    for before, block in pairwise([None, *blocks]):
        assert block is not None
        if before is not None:
            adjacent = block.line_start - before.line_end == 1
            together = before.kind == block.kind and (
                block.kind == "table" or (block.kind == "list" and adjacent)
            )
            text += "\n" if together else "\n\n"
        text += block.text
    return text


def summarise(prose: str, child_titles: Sequence[str]) -> str:
    """The first sentences of ``prose``, then the titles, each at most :data:`SUMMARY_LENGTH` characters."""
    summary = _cut(prose, _SENTENCE_END)
    if not child_titles:
        return summary
    titles = _cut("; ".join(child_titles), re.compile(";"))
    return f"{summary} Covers: {titles}".lstrip()


def _cut(text: str, boundary: re.Pattern[str]) -> str:
    """Cut a text to :data:`SUMMARY_LENGTH` characters, at the last boundary in the second half if any."""
    if len(text) <= SUMMARY_LENGTH:
        return text
    text = text[:SUMMARY_LENGTH]
    ends = [match.end() for match in boundary.finditer(text) if match.end() > SUMMARY_LENGTH // 2]
    if ends:
        return text[: ends[-1]]
    return (text[:-1].rpartition(" ")[0] or text[:-1]) + "…"


def _draft_above(identifier: str, title: str) -> _Draft:
    kind: NodeKind = "root" if identifier == ROOT_ID else "folder"
    node = Node(id=identifier, parent_id=None, depth=0, kind=kind, title=title, breadcrumb=title)
    return _Draft(node, "", [])


def _draft_document(document: Document) -> dict[str, _Draft]:
    drafts: dict[str, _Draft] = {}
    sections = document.sections
    for section, breadcrumb in zip(sections, breadcrumbs(document), strict=True):
        node = Node(
            id=section.id,
            parent_id=None,
            depth=0,
            kind="file" if section.parent is None else "section",
            title=section.title,
            text=block_text(section.blocks),
            source=document.source,
            breadcrumb=breadcrumb,
            line_start=section.line_start,
            line_end=section.line_end,
            own_line_end=section.own_line_end,
        )
        drafts[section.id] = _Draft(node, _prose(section.blocks), [])
        if section.parent is not None:
            drafts[sections[section.parent].id].children.append(section.id)
    return drafts


def _prose(blocks: Sequence[Block]) -> str:
    """The start of the section's prose or, if it has no prose, of its other blocks except headings."""
    content = [block for block in blocks if block.kind != "heading"]
    chosen = [block for block in content if block.kind in ("prose", "list")] or content
    words: list[str] = []
    size = 0
    for block in chosen:
        if size > SUMMARY_LENGTH:
            break
        text = " ".join(block.text[: 4 * SUMMARY_LENGTH].split())
        words.append(text)
        size += len(text)
    return " ".join(words)


def _hang_below_folders(sources: Iterable[str], drafts: dict[str, _Draft]) -> None:
    below: defaultdict[str, set[str]] = defaultdict(set)
    for source in sources:
        child = source
        for folder in PurePosixPath(source).parents:
            identifier = ROOT_ID if folder == PurePosixPath(".") else f"{folder}/"
            if identifier not in drafts:
                drafts[identifier] = _draft_above(identifier, folder.name)
            below[identifier].add(child)
            child = identifier
    for identifier, children in below.items():
        drafts[identifier].children.extend(sorted(children))


def _place(drafts: Mapping[str, _Draft]) -> list[Node]:
    """Turn drafts into nodes in pre-order, with parent, children, depth and summary."""
    nodes: list[Node] = []
    waiting: list[tuple[str, str | None, int]] = [(ROOT_ID, None, 0)]
    while waiting:
        identifier, parent, depth = waiting.pop()
        node, prose, children = drafts[identifier]
        nodes.append(
            Node(
                id=identifier,
                parent_id=parent,
                children=tuple(children),
                depth=depth,
                kind=node.kind,
                title=node.title,
                summary=summarise(prose, [drafts[child].node.title for child in children]),
                text=node.text,
                source=node.source,
                breadcrumb=node.breadcrumb,
                line_start=node.line_start,
                line_end=node.line_end,
                own_line_end=node.own_line_end,
            )
        )
        waiting.extend((child, identifier, depth + 1) for child in reversed(children))
    return nodes
