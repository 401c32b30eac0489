"""Determine the parent of each document from the toctrees.

1. Documents are processed in the order of their sources. The entries of a document are processed as listed.
2. An entry is a path, with or without a suffix. The path is relative to the document or, if it starts with
   ``/``, to the root of the documentation. The root is the corpus or, if the path does not exist there, the
   outermost folder above the document in which the path exists. ``Title <path>`` means ``path``. Entries with
   ``*``, ``?``, ``[...]`` or ``**`` are patterns, which match documents without a parent in source order.
3. The parent of a document is the first document with a toctree that lists it.
4. Each pattern is compared with every document, so only the first ``MAX_PATTERNS`` patterns of a corpus are
   used. Further patterns are ignored with a note.
5. Entries that would close a cycle, or that match no document, are ignored with a note.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from branchrank.corpus.document import DocumentOutline
from branchrank.corpus.reading import SUFFIXES

_EXPLICIT_TITLE = re.compile(r"[^<]*<([^<>]+)>\s*")
#: The largest number of different patterns in a corpus. Real documentation has at most a few dozen.
MAX_PATTERNS = 1000
_NOT_A_PATH = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|self\s*$")


def toctree_parents(documents: Sequence[DocumentOutline]) -> tuple[dict[str, str], list[str]]:
    """Return the source of each document's parent by the source of the document, and notes.

    Sources are in toctree order. Documents that are in no toctree are not in the result.
    """
    ordered = sorted(documents, key=lambda document: document.source)
    names = _names(ordered)
    parents: dict[str, str] = {}
    notes: list[str] = []
    patterns: dict[tuple[str, str], list[str]] = {}
    for document in ordered:
        for entry in dict.fromkeys(document.toctree):
            path = _path_of(entry)
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
                # If all matches have parents, keep one match, so that the note about no match is not written.
                patterns[asked] = [target for target in targets if target not in parents] or targets[:1]
    return parents, notes


def _names(documents: Sequence[DocumentOutline]) -> dict[str, str]:
    """Return a map from the names of documents, with and without their suffix, to their sources."""
    names = {document.source: document.source for document in documents}
    for suffix in SUFFIXES:
        for document in documents:
            if document.source.lower().endswith(suffix):
                names.setdefault(document.source[: -len(suffix)], document.source)
    return names


def _path_of(entry: str) -> str:
    entry = entry.strip()
    explicit = _EXPLICIT_TITLE.fullmatch(entry)
    return explicit[1].strip() if explicit else entry


def _is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[")


def _resolve(source: str, path: str, names: Mapping[str, str]) -> list[str]:
    """Return the documents that the entry ``path`` in ``source`` matches.

    Only a pattern can match several documents.
    """
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
    """Return whether ``source`` is equal to ``below`` or is an ancestor of it."""
    current: str | None = below
    while current is not None:
        if current == source:
            return True
        current = parents.get(current)
    return False
