"""The places in the corpus of what outside predictors return.

1. A passage without lines gets the lines of its text (:mod:`branchrank.documents.locating`). A passage that
   is at no place, or at several, stays in the list as a hit at :data:`~branchrank.core.records.UNPLACED`: it
   is a miss, and the hits after it don't move up.
2. The text of every other hit is read from its lines, and hits whose returned text differs are counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from branchrank.core.errors import BranchRankError
from branchrank.core.records import Hit, Retrieval
from branchrank.documents.lines import normalize
from branchrank.documents.reading import document_lines
from branchrank.runs.words import plural

if TYPE_CHECKING:
    from branchrank.documents.locating import Anchor, Locator

_WORD = re.compile(r"\w+")


class HitPlaces:
    """The documents below ``root``. ``min_similarity`` (0.5 to 1) is that of an anchor."""

    def __init__(self, root: Path, exclude: Sequence[str] = (), min_similarity: float = 0.9) -> None:
        self.root = root
        self.exclude = exclude
        self.min_similarity = min_similarity
        self._lines: dict[str, list[str]] = {}

    @cached_property
    def locator(self) -> Locator:
        """The locator, which reads the whole corpus when it is first used."""
        from branchrank.documents.locating import Locator

        return Locator.of(self.root, self.exclude, self.min_similarity)

    def placed(self, retrieval: Retrieval) -> tuple[tuple[Hit, ...], dict[str, Any]]:
        """Return the hits with their lines and the text of these lines, and the fields of a row about them.

        ``altered``, ``missing`` and ``ambiguous`` count the hits that need a remark. ``unknown`` has the
        source of each text whose source is not in the corpus.

        Raises :class:`BranchRankError` for lines that do not exist.
        """
        problems = Counter[str]()
        unknown: list[str] = []
        hits: list[Hit] = []
        altered = 0
        for rank, hit in enumerate(retrieval.hits, start=1):
            passage = retrieval.passages.get(rank)
            if passage is None:
                own, differs = self._with_own_text(hit)
                altered += differs
            else:
                found = self.locator.find(passage)
                if passage.source and not self.locator.source_of(passage.source):
                    unknown.append(passage.source)
                own = hit if isinstance(found, str) else self._anchored(hit, found)
                problems.update((found,) if isinstance(found, str) else ())
            hits.append(own)
        return tuple(hits), {"altered": altered, **problems, "unknown": tuple(unknown)}

    def lines(self, source: str) -> Sequence[str]:
        """Return a document's lines, or none if the corpus does not have the document."""
        try:
            return self._lines_of(source)
        except BranchRankError:
            return ()

    def _anchored(self, hit: Hit, anchor: Anchor) -> Hit:
        placed = msgspec.structs.replace(
            hit, source=anchor.source, line_start=anchor.line_start, line_end=anchor.line_end
        )
        return self._with_own_text(placed)[0]

    def _lines_of(self, source: str) -> list[str]:
        if source not in self._lines:
            try:
                self._lines[source] = document_lines(self.root, source)
            except OSError:
                raise BranchRankError(f"the corpus has no document {source!r}") from None
        return self._lines[source]

    def _with_own_text(self, hit: Hit) -> tuple[Hit, bool]:
        """Replace the text of a hit with its lines, and return whether the text differed.

        A text differs if fewer than three quarters of its words are words of the lines, or if it has no words
        and the lines have some. Case and markup are ignored, and the plain text of a section passes.
        ``plain`` is kept if it consists of words of the lines, in the same order, and has at least half of
        them.
        """
        try:
            lines = self._lines_of(hit.source)
        except BranchRankError:
            # Loaders store longer paths, and paths relative to the working directory.
            if not (source := self.locator.source_of(hit.source)):
                raise
            hit = msgspec.structs.replace(hit, source=source)
            lines = self._lines_of(source)
        if hit.line_end > len(lines):
            raise BranchRankError(
                f"lines {hit.line_start}-{hit.line_end} of {hit.source} do not exist, because the document "
                f"has {plural(len(lines), 'line')}"
            )
        text = "\n".join(lines[hit.line_start - 1 : hit.line_end])
        own = _WORD.findall(normalize(text))
        claimed = {each: _WORD.findall(normalize(each)) for each in (hit.text, hit.plain)}
        altered = bool(own and not claimed[hit.text]) or any(
            4 * (Counter(words) & Counter(own)).total() < 3 * len(words) for words in claimed.values()
        )
        words, rest = claimed[hit.plain], iter(own)
        is_plain = 2 * len(words) >= len(own) and all(word in rest for word in words)
        return msgspec.structs.replace(hit, text=text, plain=hit.plain if is_plain else text), altered
