"""Documents become the nodes of one tree.

1. The root (id ``/``) stands for the corpus. A document hangs below the document whose toctree names
   it first; any other hangs below its folder (id ``path/``), and folders below folders. So a folder
   has a node only when a document below it is in no toctree.
2. A document's own sections come before the documents that its toctrees bring in, these in toctree
   order; a folder's children are in the order of their names.
3. A node is one deeper than its parent, whatever the kinds. A breadcrumb starts at the document's
   title, because the way above it may change with any toctree.
4. A node's text is that of its own blocks. Its summary is the first sentences of its prose and, for
   an inner node, the titles below it.
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
    """A node but for what its place in the tree decides; ``children`` fills up while drafting."""

    node: Node
    prose: str
    children: list[str]


def build_nodes(documents: Sequence[Document], corpus_name: str) -> tuple[list[Node], list[str]]:
    """The nodes of a corpus in pre-order, and notes about toctree entries that were cut.

    The order of ``documents`` doesn't matter. Ids are stable while headings and paths are.
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
    """The text of blocks as a person reads it: a blank line between blocks, none inside a table or list."""
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
    """The first sentences of ``prose`` and then the titles, each at most :data:`SUMMARY_LENGTH` long."""
    summary = _cut(prose, _SENTENCE_END)
    if not child_titles:
        return summary
    titles = _cut("; ".join(child_titles), re.compile(";"))
    return f"{summary} Covers: {titles}".lstrip()


def _cut(text: str, boundary: re.Pattern[str]) -> str:
    """At most :data:`SUMMARY_LENGTH` characters, up to a boundary past the middle where there is one."""
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
    """The first words of the prose, or of whatever the section holds besides headings."""
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
    """Nodes in pre-order with parent, children, depth and summary."""
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
