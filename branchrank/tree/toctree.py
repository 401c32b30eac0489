"""Determine the parent of each document from the toctrees.

1. Documents are processed in source order, and the entries of each document in their order.
2. An entry is a path, with or without a suffix. It is relative to its document or, if it starts with ``/``,
   to the root of the documentation (the corpus, else the outermost folder above the document in which the
   path exists). ``Title <path>`` names ``path``; ``*``, ``?``, ``[...]`` and ``**`` match documents that
   have no parent yet, in source order.
3. The parent of a document is the first document whose toctree names it.
4. Each pattern is compared with every document, so only the first ``MAX_PATTERNS`` patterns of a corpus are
   used; the others are ignored with a note.
5. An entry that would close a cycle, or that names no document, is ignored with a note.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from branchrank.corpus.document import DocumentOutline
from branchrank.corpus.reading import SUFFIXES

_EXPLICIT_TITLE = re.compile(r"[^<]*<([^<>]+)>\s*")
#: Different patterns that one corpus can use. Documentation has at most a few dozen.
MAX_PATTERNS = 1000
_NOT_A_PATH = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|self\s*$")


def toctree_parents(documents: Sequence[DocumentOutline]) -> tuple[dict[str, str], list[str]]:
    """Return a map from each document's source to its parent's, in toctree order, and notes.

    Documents that no toctree names are left out.
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
                    f"{document.source}: the toctree entry {entry!r} is ignored; the toctrees of this corpus "
                    f"have more than {MAX_PATTERNS} patterns"
                )
                continue
            targets = patterns[asked] if asked in patterns else _resolve(document.source, path, names)
            if not targets:
                notes.append(f"{document.source}: the toctree entry {entry!r} names no document")
            for target in targets:
                if target in parents or (_is_pattern(path) and target == document.source):
                    continue
                if _is_above(target, document.source, parents):
                    notes.append(f"{document.source}: the toctree entry {entry!r} closes a cycle and is cut")
                else:
                    parents[target] = document.source
            if _is_pattern(path):
                # If every match already has a parent, keep one, so that the note above is not written.
                patterns[asked] = [target for target in targets if target not in parents] or targets[:1]
    return parents, notes


def _names(documents: Sequence[DocumentOutline]) -> dict[str, str]:
    """Sources by the names that an entry can use: with and without the suffix."""
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
    """The documents that the entry ``path`` in ``source`` names; only a pattern can name several."""
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
    """Whether ``source`` is ``below`` itself or one of its ancestors."""
    current: str | None = below
    while current is not None:
        if current == source:
            return True
        current = parents.get(current)
    return False
