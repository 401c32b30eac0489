"""Build one tree of nodes from the documents in a corpus, or read it from a file.

1. The root node (id ``/``) represents the corpus. The parent of a document is the first document whose
   toctree lists it. If no toctree lists a document, its parent is its folder (id ``path/``). The parent of a
   folder is the folder that contains it. A folder therefore has a node only if the folder or one of its
   subfolders contains a document that is in no toctree.
2. The children of a document are its sections, then the documents in its toctrees, in toctree order. The
   children of a folder are sorted by their first position in a navigation file of the corpus
   (:mod:`branchrank.documents.navigation`), then by name.
3. The depth of a node is one more than the depth of its parent. A breadcrumb starts with the document's
   title. Breadcrumbs omit the nodes above the document, because these nodes can change when the toctrees of
   other documents change.
4. The text of a node does not include the text of its subsections. The summary of a node consists of the
   first sentences of the node's prose and the titles of the node's children.

The parent of each document is determined from the toctree directives in all documents.

1. Documents are processed in the order of their paths. The toctree entries in a document are processed in the
   order in which they are listed.
2. A toctree entry is the path of a document, with or without a suffix, or ``Title <path>``. An entry's path
   is relative to the folder of the document that contains the toctree, unless the path starts with ``/``. A
   path that starts with ``/`` is first looked up in the corpus folder. A path that does not exist in the
   corpus folder is looked up in the document's parent folders, from the outermost to the innermost. An entry
   with ``*``, ``?``, ``[...]`` or ``**`` is a pattern. A pattern selects the matching documents that have no
   parent yet, in the order of their paths.
3. The parent of a document is the first document whose toctree lists it.
4. Only the first ``MAX_PATTERNS`` patterns of a corpus are used, because each pattern is compared with every
   document. A note reports each ignored pattern.
5. A toctree entry is ignored if it matches no document or would make a document its own ancestor. A note
   reports each ignored entry.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path, PurePosixPath

import msgspec

from branchrank.core.errors import ArtifactError
from branchrank.core.io.text_files import read_jsonl
from branchrank.core.records import Node, Record
from branchrank.documents.document import Block, Document, Section, breadcrumbs
from branchrank.documents.reading import READERS
from branchrank.documents.tree_nodes import Tree, find_problems

ROOT_ID = "/"
SUMMARY_LENGTH = 300

_SENTENCE_END = re.compile(r"[.!?:。！？](?=\s)")
_EXPLICIT_TITLE = re.compile(r"[^<]*<([^<>]+)>\s*")
#: The maximum number of different patterns. Real documentation has at most a few dozen patterns.
MAX_PATTERNS = 1000
_NOT_A_PATH = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|self\s*$")


class Page(Record, frozen=True, kw_only=True):
    """The nodes of one document, before the document is given a position in the tree.

    The node of the file comes first, and has depth 0 and no parent. The children of the file's node are only
    the file's top-level sections, and the summary of the file's node contains only prose.
    """

    nodes: tuple[Node, ...]

    def placed(self, parent: str | None, depth: int, below: Sequence[tuple[str, str]]) -> Iterator[Node]:
        """Yield the nodes with their final parents, children, depths and summaries.

        ``parent`` is the id of the file node's parent. ``depth`` is the depth of the file's node. ``below``
        contains the ids and titles of the documents that are children of this document.
        """
        file, *sections = self.nodes
        titles = [node.title for node in sections if node.parent_id == file.id]
        yield msgspec.structs.replace(
            file,
            parent_id=parent,
            depth=depth,
            children=(*file.children, *(identifier for identifier, _ in below)),
            summary=summarize(file.summary, [*titles, *(title for _, title in below)]),
        )
        for node in sections:
            yield msgspec.structs.replace(node, depth=node.depth + depth)


class CorpusOutline:
    """The folders and documents of a tree, without the sections of the documents."""

    def __init__(self, documents: Sequence[Document], corpus_name: str) -> None:
        parents, self.notes = toctree_parents(documents)
        self._titles = {ROOT_ID: corpus_name}
        self._titles |= {document.source: document.title for document in documents}
        self._order = {each.source: each.order for each in documents if each.order is not None}
        self._children: defaultdict[str, list[str]] = defaultdict(list)
        for source, parent in parents.items():
            self._children[parent].append(source)
        self._hang_below_folders(document.source for document in documents if document.source not in parents)

    def _hang_below_folders(self, sources: Iterable[str]) -> None:
        below: defaultdict[str, set[str]] = defaultdict(set)
        for source in sources:
            child = source
            for folder in PurePosixPath(source).parents:
                identifier = ROOT_ID if folder == PurePosixPath(".") else f"{folder}/"
                self._titles.setdefault(identifier, folder.name)
                below[identifier].add(child)
                if child in self._order:
                    first = min(self._order[child], self._order.get(identifier, self._order[child]))
                    self._order[identifier] = first
                child = identifier
        for identifier, children in below.items():
            ordered = sorted(children, key=lambda child: (self._order.get(child, len(self._titles)), child))
            self._children[identifier].extend(ordered)

    def nodes(self, page_of: Callable[[str], Page]) -> Iterator[Node]:
        """Yield every node in pre-order. ``page_of`` is called once for each document, in pre-order."""
        waiting: list[tuple[str, str | None, int]] = [(ROOT_ID, None, 0)]
        while waiting:
            identifier, parent, depth = waiting.pop()
            children = self._children.get(identifier, [])
            below = [(child, self._titles[child]) for child in children]
            if identifier.endswith("/"):  # the root or a folder
                yield Node(
                    id=identifier,
                    parent_id=parent,
                    children=tuple(children),
                    depth=depth,
                    kind="root" if identifier == ROOT_ID else "folder",
                    title=self._titles[identifier],
                    summary=summarize("", [title for _, title in below]),
                    breadcrumb=self._titles[identifier],
                )
            else:
                yield from page_of(identifier).placed(parent, depth, below)
            waiting.extend((child, identifier, depth + 1) for child in reversed(children))


def build_nodes(documents: Sequence[Document], corpus_name: str) -> tuple[list[Node], list[str]]:
    """Return the nodes of a corpus in pre-order, and notes about toctree entries that had no effect.

    The result does not depend on the order of ``documents``. The id of a node changes only if the path of its
    file or a heading in the file changes.
    """
    by_source = {document.source: document for document in documents}
    outline = CorpusOutline([by_source[source] for source in sorted(by_source)], corpus_name)
    return list(outline.nodes(lambda source: draft_page(by_source[source]))), outline.notes


def with_summaries(nodes: Iterable[Node], summaries: Mapping[str, str]) -> list[Node]:
    """Return the nodes with the summaries that ``summaries`` contains for their ids."""
    return [
        msgspec.structs.replace(node, summary=summaries[node.id]) if node.id in summaries else node
        for node in nodes
    ]


def block_text(blocks: Iterable[Block]) -> str:
    """Join the texts of blocks, with blank lines between blocks, except between table rows and list items."""
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


def summarize(prose: str, child_titles: Sequence[str]) -> str:
    """Return the first sentences of ``prose``, followed by ``child_titles``.

    The text of the sentences and the list of titles are each cut to at most :data:`SUMMARY_LENGTH`
    characters.
    """
    summary = _cut(prose, _SENTENCE_END)
    if not child_titles:
        return summary
    titles = _cut("; ".join(child_titles), re.compile(";"))
    return f"{summary} Covers: {titles}".lstrip()


def _cut(text: str, boundary: re.Pattern[str]) -> str:
    """Cut a text to at most :data:`SUMMARY_LENGTH` characters.

    A longer text is cut after the last match of ``boundary`` in the second half of the first
    :data:`SUMMARY_LENGTH` characters. If this half contains no match, the text is cut between words.
    """
    if len(text) <= SUMMARY_LENGTH:
        return text
    text = text[:SUMMARY_LENGTH]
    ends = [match.end() for match in boundary.finditer(text) if match.end() > SUMMARY_LENGTH // 2]
    if ends:
        return text[: ends[-1]]
    return (text[:-1].rpartition(" ")[0] or text[:-1]) + "…"


def draft_page(document: Document) -> Page:
    """Return the nodes of one document, before the document is given a position in the tree."""
    sections = document.sections
    below: list[list[Section]] = [[] for _ in sections]
    depths: list[int] = []
    for section in sections:
        depths.append(0 if section.parent is None else depths[section.parent] + 1)
        if section.parent is not None:
            below[section.parent].append(section)
    nodes = []
    for section, breadcrumb, depth, children in zip(
        sections, breadcrumbs(document), depths, below, strict=True
    ):
        prose = _cut(_prose(section.blocks), _SENTENCE_END)
        is_file = section.parent is None
        nodes.append(
            Node(
                id=section.id,
                parent_id=None if section.parent is None else sections[section.parent].id,
                children=tuple(child.id for child in children),
                depth=depth,
                kind="file" if is_file else "section",
                title=section.title,
                summary=prose if is_file else summarize(prose, [child.title for child in children]),
                text=block_text(section.blocks),
                source=document.source,
                breadcrumb=breadcrumb,
                line_start=section.line_start,
                line_end=section.line_end,
                own_line_end=section.own_line_end,
            )
        )
    return Page(nodes=tuple(nodes))


def _prose(blocks: Sequence[Block]) -> str:
    """Return the first words of a section's prose and lists, or else of its code and tables."""
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


def toctree_parents(documents: Sequence[Document]) -> tuple[dict[str, str], list[str]]:
    """Return a dictionary that maps each document's source to its parent's source, and a list of notes.

    The dictionary is in toctree order, and contains only documents that are in a toctree. The notes are about
    toctree entries that are ignored or match no document.
    """
    ordered = sorted(documents, key=lambda document: document.source)
    names = _names(ordered)
    parents: dict[str, str] = {}
    notes: list[str] = []
    patterns: dict[tuple[str, str], list[str]] = {}
    for document in ordered:
        for entry in dict.fromkeys(document.toctree):
            entry = entry.strip()
            explicit = _EXPLICIT_TITLE.fullmatch(entry)
            path = explicit[1].strip() if explicit else entry
            if not path or _NOT_A_PATH.match(path):
                continue
            asked = (posixpath.dirname(document.source), path)
            if _is_pattern(path) and asked not in patterns and len(patterns) == MAX_PATTERNS:
                notes.append(
                    f"{document.source}: the toctree entry {entry!r} is ignored, "
                    f"because the toctrees of this corpus contain more than {MAX_PATTERNS} patterns"
                )
                continue
            targets = patterns[asked] if asked in patterns else _resolve(document.source, path, names)
            if not targets:
                notes.append(f"{document.source}: the toctree entry {entry!r} matches no document")
            for target in targets:
                if target in parents or (_is_pattern(path) and target == document.source):
                    continue
                if _is_above(target, document.source, parents):
                    notes.append(
                        f"{document.source}: the toctree entry {entry!r} is ignored, "
                        "because it closes a cycle"
                    )
                else:
                    parents[target] = document.source
            if _is_pattern(path):
                # Keep at least one match; otherwise the pattern would be reported as matching no document.
                patterns[asked] = [target for target in targets if target not in parents] or targets[:1]
    return parents, notes


def _names(documents: Sequence[Document]) -> dict[str, str]:
    """Return a dictionary that maps the path of each document, with and without its suffix, to its source."""
    names = {document.source: document.source for document in documents}
    for suffix in READERS.names:
        for document in documents:
            if document.source.lower().endswith(suffix):
                names.setdefault(document.source[: -len(suffix)], document.source)
    return names


def _is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[")


def _resolve(source: str, path: str, names: Mapping[str, str]) -> list[str]:
    """Return the documents that match ``path``, a toctree entry of the document ``source``."""
    folder = posixpath.dirname(source)
    if path.startswith("/"):
        parts = folder.split("/") if folder else []
        bases = ["/".join(parts[:count]) for count in range(len(parts) + 1)]
    else:
        bases = [folder]
    for base in bases:
        wanted = posixpath.normpath(posixpath.join(base, path.lstrip("/")))
        if wanted in names:
            return [names[wanted]]
        if _is_pattern(wanted) and (found := {names[name] for name in names if _matches(name, wanted)}):
            return sorted(found)
    return []


def _matches(name: str, pattern: str) -> bool:
    if "**" in pattern:
        return fnmatchcase(name, pattern)
    name_parts, pattern_parts = name.split("/"), pattern.split("/")
    return len(name_parts) == len(pattern_parts) and all(map(fnmatchcase, name_parts, pattern_parts))


def _is_above(source: str, below: str, parents: Mapping[str, str]) -> bool:
    """Return whether ``source`` is the document ``below`` or one of its ancestors."""
    while below != source and below in parents:
        below = parents[below]
    return below == source


_REMEDY = "build it again: branchrank index CORPUS, or branchrank pageindex build"


def load_nodes(path: Path | str) -> Tree:
    """Read a tree, and check that it is valid.

    Raises :class:`ArtifactError` if the file can't be read or does not contain a valid tree. The message
    contains the line number of the invalid node (not counting blank lines).
    """
    nodes = list(read_jsonl(Path(path), Node, error=ArtifactError, remedy=_REMEDY))
    if not nodes:
        raise ArtifactError(f"the file {path} contains no nodes", remedy=_REMEDY)
    for index, message in find_problems(nodes):
        raise ArtifactError(f"{path}:{index + 1}: {nodes[index].id!r}: {message}", remedy=_REMEDY)
    return Tree(nodes)
