"""Export and import the JSON format that VectifyAI's PageIndex writes for a Markdown file.

The export writes one file per document. Every heading becomes a node. The ``line_num`` of a node is the
number of the heading's line, starting at 1. The ``text`` of a node contains the lines from its heading up to
the next heading of any level. The summary is in the ``summary`` field of a node without children, or in the
field ``prefix_summary`` of a node with children. The format has no field for the last line of a node or for
text before the first heading.

The import works in three steps.

1. The line numbers of the tree are checked against the Markdown file, and the lines of every section are
   computed from the file.
2. The blocks of the Markdown file are parsed as usual. A block is cut in two if the tree has a heading inside
   the block.
3. The format can't store text before the first heading, so this text is restored from the Markdown file. The
   import's notes list the text that was restored, the headings that are missing from the tree, and the nodes
   of the tree that are not headings in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from branchrank.core.errors import InputError
from branchrank.core.io.files import NOT_JSON
from branchrank.core.records import Node, Record
from branchrank.documents.document import Block, Document, Heading, finish_sections
from branchrank.documents.lines import split_lines
from branchrank.documents.reading import document_text, read_document
from branchrank.documents.tree_build import build_nodes, with_summaries

_ATX = re.compile(r"\s*#{1,6}\s+(\S.*)")
_REMEDY = "give the JSON file that PageIndex wrote for this Markdown file (not for a PDF)"


class PageIndexNode(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One heading in a PageIndex tree, with the fields in PageIndex's order."""

    title: str
    node_id: str | UnsetType = UNSET
    line_num: int
    summary: str | UnsetType = UNSET
    prefix_summary: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    nodes: tuple[PageIndexNode, ...] = ()


class PageIndexDocument(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The PageIndex tree of one file.

    ``doc_name`` is the file's name without its folder and extension. ``line_count`` is the number of line
    breaks in the file plus 1. ``structure`` contains the nodes of the top-level headings.
    """

    doc_name: str
    line_count: int
    structure: tuple[PageIndexNode, ...]


class ImportedDocument(NamedTuple):
    """A document that was made from a file and the file's PageIndex tree.

    ``summaries`` maps section ids to summaries. ``notes`` lists the differences between the file and the
    tree.
    """

    document: Document
    summaries: dict[str, str]
    notes: list[str]


class _Entry(NamedTuple):
    """A node of the imported PageIndex tree, and its heading level, which is 1 at the top of the tree."""

    node: PageIndexNode
    level: int


def export_document(
    document: Document, content: bytes, *, summaries: Mapping[str, str] | None = None, with_text: bool = True
) -> PageIndexDocument:
    """Return the PageIndex tree of a document. ``summaries`` maps section ids to summaries."""
    text = document_text(document.source, content)
    lines = split_lines(text)
    headed = {
        index: _title_line(heading, lines)
        for index, section in enumerate(document.sections)
        if (heading := next((block for block in section.blocks if block.kind == "heading"), None))
    }
    children: dict[int | None, list[int]] = {}
    for index in headed:
        parent = document.sections[index].parent
        while parent is not None and parent not in headed:
            parent = document.sections[parent].parent
        children.setdefault(parent, []).append(index)
    order = {index: position for position, index in enumerate(headed)}
    ends = [*(number - 1 for number, _ in list(headed.values())[1:]), len(lines)]

    def node(index: int) -> PageIndexNode:
        below = tuple(map(node, children.get(index, ())))
        summary = UNSET if summaries is None else summaries.get(document.sections[index].id, "")
        position, (number, title) = order[index], headed[index]
        own = "\n".join(lines[number - 1 : ends[position]]).strip()
        return PageIndexNode(
            title=title,
            node_id=f"{position:04}",
            line_num=number,
            summary=UNSET if below else summary,
            prefix_summary=summary if below else UNSET,
            text=own if with_text else UNSET,
            nodes=below,
        )

    return PageIndexDocument(
        doc_name=PurePosixPath(document.source).stem,
        line_count=text.count("\n") + 1,
        structure=tuple(map(node, children.get(None, ()))),
    )


def encode_document(document: PageIndexDocument) -> bytes:
    """Return a PageIndex tree as JSON, indented by two spaces as in PageIndex's files."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def import_document(payload: bytes, source: str, content: bytes) -> ImportedDocument:
    """Decode ``payload``, the PageIndex tree of the file ``source``. ``content`` contains the file's bytes.

    Raises :class:`InputError` if ``payload`` is not a PageIndex tree, or if the tree's line numbers are not
    in ascending order or not in the file.
    """
    tree = _decode(payload, source)
    read = read_document(source, content)
    entries = list(_pre_order(tree.structure))
    _check_lines(entries, read)
    text = document_text(source, content)
    notes = []
    if tree.line_count != text.count("\n") + 1:
        notes.append(
            f"the tree was made from {tree.line_count} lines, but the file now has {read.line_count} lines"
        )
    headings, heading_notes = _headings(entries, read)
    notes += heading_notes
    blocks = [block for section in read.sections for block in section.blocks]
    sections = finish_sections(
        source, headings=headings, blocks=list(_body(blocks, headings)), line_count=read.line_count
    )
    headed = sections[len(sections) - len(headings) :]
    summaries = {
        section.id: summary
        for section, (node, _) in zip(headed, entries, strict=True)
        if (summary := node.summary or node.prefix_summary)
    }
    notes += _dropped(blocks, headings, read.line_count)
    document = msgspec.structs.replace(read, title=sections[0].title, sections=sections)
    return ImportedDocument(document, summaries, [f"{source}: {note}" for note in notes])


def import_nodes(imported: Sequence[ImportedDocument], corpus_name: str) -> tuple[list[Node], list[str]]:
    """Return the nodes of imported documents, with the imported summaries, and the notes on all documents."""
    nodes, notes = build_nodes([each.document for each in imported], corpus_name)
    summaries = {identifier: text for each in imported for identifier, text in each.summaries.items()}
    return with_summaries(nodes, summaries), [note for each in imported for note in each.notes] + notes


def _title_line(heading: Block, lines: Sequence[str]) -> tuple[int, str]:
    """Return the line number and the Markdown text of a heading's title, both as in PageIndex's own tree."""
    for number in range(heading.line_start, heading.line_end + 1):
        if match := _ATX.fullmatch(lines[number - 1]):
            return number, match[1].strip()
    return max(heading.line_start, heading.line_end - 1), heading.text


def _decode(payload: bytes, source: str) -> PageIndexDocument:
    try:
        return msgspec.json.decode(payload, type=PageIndexDocument)
    except NOT_JSON as error:
        raise InputError(f"the JSON is not a PageIndex tree of {source}: {error}", remedy=_REMEDY) from None


def _pre_order(structure: Sequence[PageIndexNode]) -> Iterator[_Entry]:
    waiting = [_Entry(node, 1) for node in reversed(structure)]
    while waiting:
        entry = waiting.pop()
        yield entry
        waiting.extend(_Entry(child, entry.level + 1) for child in reversed(entry.node.nodes))


def _check_lines(entries: Sequence[_Entry], document: Document) -> None:
    last = 0
    for node, _ in entries:
        if not last < node.line_num <= document.line_count:
            raise InputError(
                f"{document.source}: the tree has the node {node.title!r} at line {node.line_num}, "
                f"but only the lines {last + 1} to {document.line_count} are possible there",
                remedy=_REMEDY,
            )
        last = node.line_num


def _headings(entries: Sequence[_Entry], document: Document) -> tuple[list[Heading], list[str]]:
    """Return the headings of a PageIndex tree, and a note for each heading that is missing from the file.

    The lines and title of a heading that is missing from the file are taken from the PageIndex tree.
    """
    read_at = {
        number: (block, section.labels)
        for section in document.sections
        for block in section.blocks
        if block.kind == "heading"
        for number in range(block.line_start, block.line_end + 1)
    }
    headings: list[Heading] = []
    notes: list[str] = []
    for node, level in entries:
        if node.line_num in read_at:
            block, labels = read_at[node.line_num]
            headings.append(Heading(level, block.text, block.line_start, block.line_end, labels))
        else:
            notes.append(
                f"the tree has the heading {node.title!r} at line {node.line_num}, which is not a heading "
                "in the file"
            )
            headings.append(Heading(level, node.title, node.line_num, node.line_num))
    return headings, notes


def _body(blocks: Sequence[Block], headings: Sequence[Heading]) -> Iterator[Block]:
    """Yield the blocks without the lines of ``headings``, and turn other headings into prose."""
    taken = {number for heading in headings for number in range(heading.line_start, heading.line_end + 1)}
    for block in blocks:
        if block.kind == "heading":
            if block.line_start not in taken:
                yield msgspec.structs.replace(block, kind="prose")
        elif taken.isdisjoint(range(block.line_start, block.line_end + 1)):
            yield block
        else:
            yield from _cut(block, taken)


def _cut(block: Block, taken: set[int]) -> Iterator[Block]:
    run: list[str] = []
    lines = block.text.split("\n")
    for number in range(block.line_start, block.line_end + 2):
        offset = number - block.line_start
        if number <= block.line_end and number not in taken:
            run.append(lines[offset] if offset < len(lines) else "")
        elif run:
            if text := "\n".join(run).rstrip():
                yield msgspec.structs.replace(
                    block, text=text, line_start=number - len(run), line_end=number - 1
                )
            run = []


def _dropped(blocks: Sequence[Block], headings: Sequence[Heading], line_count: int) -> Iterator[str]:
    """Yield notes about text and headings that are in the Markdown file but not in the PageIndex tree."""
    first = headings[0].line_start if headings else line_count + 1
    if any(block.line_start < first for block in blocks if block.kind != "heading"):
        yield (
            f"lines 1-{first - 1}, before the first heading, are missing from the tree; restored "
            "from the file"
        )
    known = {heading.line_start for heading in headings}
    for block in blocks:
        if block.kind == "heading" and block.line_start not in known:
            yield (
                f"the heading {block.text!r} at line {block.line_start} is missing from the tree and "
                "was imported as text"
            )
