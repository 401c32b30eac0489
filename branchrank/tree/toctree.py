"""Determine the parent of each document from the toctree directives in all documents.

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
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from branchrank.corpus.document import DocumentOutline
from branchrank.corpus.reading import SUFFIXES

_EXPLICIT_TITLE = re.compile(r"[^<]*<([^<>]+)>\s*")
#: The maximum number of different patterns. Real documentation has at most a few dozen patterns.
MAX_PATTERNS = 1000
_NOT_A_PATH = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|self\s*$")


def toctree_parents(documents: Sequence[DocumentOutline]) -> tuple[dict[str, str], list[str]]:
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
                # Keep at least one match; otherwise the pattern would be reported as matching no document.
                patterns[asked] = [target for target in targets if target not in parents] or targets[:1]
    return parents, notes


def _names(documents: Sequence[DocumentOutline]) -> dict[str, str]:
    """Return a dictionary that maps the path of each document, with and without its suffix, to its source."""
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
    current: str | None = below
    while current is not None:
        if current == source:
            return True
        current = parents.get(current)
    return False
