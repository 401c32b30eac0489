"""Find the lines of a text in the documents of a corpus, whatever a splitter did to the text.

1. The documents are split into words, and the position of every run of three words is looked up in an index
   (:mod:`branchrank.documents.word_index`).
2. If the words of a text occur in the corpus one after the other, each occurrence is a place. A place is
   ``exact`` if its raw lines contain the text, and ``plain`` otherwise.
3. A text without such a place is ``aligned``. If it has places without its first line, which may be a title,
   or without its first or last word, which may be half a word, these count. Otherwise, the longest chain of
   its runs that are rare in the corpus and in order in a document, without a gap of more than ``_GAP``
   words, is a candidate. The text is aligned with the words of the chain by the longest common subsequence.
   Words that only the document has (markup, dropped code) cost nothing. Words at the ends of a text that the
   document lacks are cut, up to a quarter of the text or ``_CUT`` words. The similarity is the share of the
   remaining words of the text that are aligned.
4. A text with several places that are equally good is ambiguous, and one without a place of the minimum
   similarity is missing. Lines that the retriever claimed decide between equally good places.
5. For the chunks of another program, which are usually in the order of the document, :class:`ChunkLocator`
   decides between equally good places.
"""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple
from urllib.parse import unquote

import numpy as np
from msgspec.structs import replace

from branchrank.core.records import Passage, Record, Span
from branchrank.documents.lines import NormalizedLines, normalize
from branchrank.documents.reading import document_lines
from branchrank.documents.word_index import RUN, Ints, WordIndex, runs_of

#: The largest number of words between two parts of a text, such as the words of dropped code.
_GAP = 600
#: The number of words at the ends of a short text that a document may lack.
_CUT = 12
#: The most words of a first line that may be a title in front of a text.
_TITLE = 20
#: The most words, such as the address of a link, that a document has between two neighboring words of a text.
_SKIP = 10
#: A heading is a prefixed title, and not part of the text, if so many words of the document follow it.
_TITLE_GAP = 30
_HEADING = re.compile(r"\s*(#{1,6}\s|=+\s|<(h[1-6]|title)\b)", re.IGNORECASE)
_UNDERLINE = re.compile(r"([-=~^\"'.#*+:_])\1{2,}|`{4,}")
#: A run of words is looked up if it is at no more than this many places, or else is among the rarest runs.
_RARE, _RAREST = 24, 8
#: The most candidates that are aligned.
_CANDIDATES = 4
#: The most places of a text that are compared. A text with more places, such as a blank row of a table, is
#: ambiguous, unless the claimed lines overlap one of these.
_PLACES = 1_000
_MIN_SIMILARITY = 0.9

#: Pairs of a place in a text and a position in the corpus at which the same run of words starts.
Chain = list[tuple[int, int]]
How = Literal["exact", "plain", "aligned", "claimed", "unconfirmed"]
Problem = Literal["missing", "ambiguous"]
PROBLEMS: dict[Problem, str] = {
    "missing": "its text does not occur in the document or in the corpus",
    "ambiguous": "no path matches a document, and its text is short or occurs several times in the corpus",
}


class Anchor(Record, frozen=True, kw_only=True):
    """The lines of a text.

    ``similarity`` is the share of the text's words that these lines contain. ``how`` is ``claimed`` for lines
    that another program claimed and that contain its text, and ``unconfirmed`` for those that do not.
    """

    source: str
    line_start: int
    line_end: int
    similarity: float
    how: How

    @property
    def span(self) -> Span:
        """The document and its lines."""
        return Span(source=self.source, line_start=self.line_start, line_end=self.line_end)


class _Place(NamedTuple):
    """The words ``first`` to ``last`` of the corpus, which match a text without its first ``cut`` words."""

    first: int
    last: int
    similarity: float
    matched: int
    cut: int = 0


class Locator:
    """Finds the lines of texts in a corpus. ``documents`` maps each source to its raw lines.

    >>> Locator({"brew.md": ["# Brewing", "", "Heat the water", "to 94 degrees."]}).locate("water to 94")
    Anchor(source='brew.md', line_start=3, line_end=4, similarity=1.0, how='plain')
    """

    def __init__(
        self, documents: Mapping[str, Sequence[str]], min_similarity: float = _MIN_SIMILARITY
    ) -> None:
        self.documents = documents
        self.min_similarity = min_similarity

    @classmethod
    def of(cls, root: Path, exclude: Iterable[str] = (), min_similarity: float = _MIN_SIMILARITY) -> Locator:
        """Read the documents below ``root``.

        Raises :class:`~branchrank.core.errors.CorpusError` without any document.
        """
        from branchrank.documents.loading import corpus_lines

        return cls(corpus_lines(root, tuple(exclude)), min_similarity)

    def locate(self, text: str, source: str | None = None) -> Anchor | None:
        """Return the lines of ``text``, or ``None`` if it is in no place or in several.

        ``source`` restricts the search to one document. If the corpus has no such document, the whole corpus
        is searched.
        """
        found = self.find(Passage(text=text, source=source))
        return found if isinstance(found, Anchor) else None

    def find(self, passage: Passage) -> Anchor | Problem:
        """Return the lines of a passage, or why it has none."""
        anchors = self._anchors(passage)
        return anchors if isinstance(anchors, str) else self._chosen(anchors, passage)

    def _anchors(self, passage: Passage) -> list[Anchor] | Problem:
        """Return all equally good places of a passage, or why it has none."""
        anchors = self._places(passage)
        if anchors == "missing" and (text := self._index.without_tags(passage.text)):
            anchors = self._places(replace(passage, text=text))
        return anchors

    def _places(self, passage: Passage) -> list[Anchor] | Problem:
        words = self._index.of(passage.text)
        source = self.source_of(passage.source)
        found = self._index.occurrences(words, self._index.bounds(source))
        places = self._verbatim(words, found, [(0, 0)], source)
        if places and len(words) < RUN and not source:
            return "ambiguous"  # one or two words say nothing about where they are from
        contiguous = bool(places)
        if not places and len(words) > RUN:
            title = len(self._index.of(passage.text.lstrip().partition("\n")[0]))
            cuts = [(1, 0), (0, 1), (1, 1)] + [(title, end) for end in (0, 1) if title <= _TITLE]
            places = [
                self._with_first_line(place, words[:title]) if place.cut == title > 1 else place
                for place in self._verbatim(words, found, cuts, source)
            ]
        if not places and len(words) > RUN:
            chains = _chains(found, self._index.document)
            places = [place for chain in chains if (place := self._aligned(words, chain))]
        good = [place for place in places if place.similarity >= self.min_similarity]
        if not good:
            return "missing"
        most = max(place.matched for place in good)
        shortest = min(place.last - place.first for place in good if place.matched == most)
        anchors = {
            self._anchor(place, passage.text, contiguous): None
            for place in good
            if place.matched == most and place.last - place.first <= shortest + 1
        }
        return [*anchors]

    def _chosen(self, anchors: Sequence[Anchor], passage: Passage) -> Anchor | Problem:
        """Return the only anchor, or the only one among several that overlaps the claimed lines."""
        if len(anchors) > 1 and passage.line_start and passage.line_end:
            claimed = [
                each
                for each in anchors
                if each.line_start <= passage.line_end and passage.line_start <= each.line_end
            ]
            anchors = claimed or anchors
        return anchors[0] if len(anchors) == 1 else "ambiguous"

    def source_of(self, given: str | None) -> str:
        """Return the document that a retriever's source means, or an empty string if there is none.

        A source can be the path of the document, a longer path or ``file:`` URL that ends with it, or a file
        name that occurs once in the corpus.
        """
        if not given:
            return ""
        path = given
        if given.startswith("file:"):  # not parsed as a URL, because that fails for an invalid host
            path = unquote(re.split("[?#]", given.removeprefix("file:"))[0])
        parts = PurePosixPath(path.replace("\\", "/")).parts
        tails = ["/".join(parts[start:]) for start in range(len(parts))]
        if found := next((tail for tail in tails if tail in self.documents), ""):
            return found
        named = self._by_name.get(parts[-1], []) if parts else []
        return named[0] if len(named) == 1 else ""

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for source in self.documents:
            names.setdefault(source.rpartition("/")[2], []).append(source)
        return names

    @cached_property
    def _index(self) -> WordIndex:
        return WordIndex(self.documents)

    def _verbatim(
        self, words: Ints, found: Sequence[Ints], cuts: Sequence[tuple[int, int]], source: str
    ) -> list[_Place]:
        """Return the places where all words of a text follow one after the other, apart from cut words.

        ``cuts`` are pairs of the number of words that are cut at the start and at the end. The first pair
        that leaves half of the text and has a place counts.
        """
        low, high = self._index.bounds(source)
        for at_start, at_end in cuts:
            left = words[at_start : len(words) - at_end]
            if not len(left) or 2 * len(left) < len(words) or (left < 0).any():
                continue
            if len(left) >= RUN:
                runs = range(at_start, at_start + len(left) - RUN + 1)
                rarest = min(runs, key=lambda at: len(found[at]))
                starts = found[rarest] - (rarest - at_start)
            else:
                starts = self._index.single(left[0], (low, high))
            places = (
                _Place(start, start + len(left) - 1, 1.0, len(left), at_start)
                for start in starts.tolist()
                if low <= start and start + len(left) <= high and self._index.has(start, left)
            )
            if found_places := list(islice(places, _PLACES)):
                return found_places
        return []

    def _with_first_line(self, place: _Place, line: Ints) -> _Place:
        """Add the first line of a text to the place of the rest if it is above and is not a far heading."""
        low = max(place.first - _GAP, self._index.bounds(self._index.document(place.first))[0])
        for start in self._index.single(line[0], (low, place.first))[::-1].tolist():
            is_far = place.first - start - len(line) > _TITLE_GAP
            if self._index.has(start, line) and not (is_far and self._is_heading(start)):
                return place._replace(first=start, matched=place.matched + len(line))
        return place

    def _aligned(self, words: Ints, chain: Chain) -> _Place | None:
        """Align a text with the words around a chain, or return ``None`` if too much of it is cut."""
        from rapidfuzz.distance import LCSseq

        chain = self._without_title(words, self._dense(words, chain))
        (first, start), (last, end) = chain[0], chain[-1]
        last, end = last + RUN - 1, end + RUN - 1
        ids = self._index.ids
        low, high = self._index.bounds(self._index.document(start))
        matched = LCSseq.similarity(words[first : last + 1].tolist(), ids[start : end + 1].tolist())
        before, above = _nearest(words[:first][::-1], ids[low:start][::-1])
        after, below = _nearest(words[last + 1 :], ids[end + 1 : high])
        matched += len(before) + len(after)
        aligned = last - first + 1 + (before[-1] + 1 if before else 0) + (after[-1] + 1 if after else 0)
        if len(words) - aligned > max(_CUT, len(words) // 4):
            return None
        return _Place(start - above, end + below, matched / aligned, matched)

    def _dense(self, words: Ints, chain: Chain) -> Chain:
        """Return the longest chain around a chain, with the runs that are frequent in the corpus."""
        low, high = self._index.bounds(self._index.document(chain[0][1]))
        start = max(low, chain[0][1] - 4 * chain[0][0] - _SKIP)
        end = min(high, chain[-1][1] + 4 * (len(words) - chain[-1][0]) + _SKIP)
        positions: dict[int, list[int]] = {}
        for position, run in enumerate(runs_of(self._index.ids[start:end]).tolist(), start):
            positions.setdefault(run, []).append(position)
        seeds = [
            (position, at)
            for at, run in enumerate(runs_of(words).tolist())
            for position in positions.get(run, ())
            if len(positions[run]) <= _RARE  # else a text of one repeated word has seeds without number
        ]
        return _longest_chain(seeds) or chain

    def _without_title(self, words: Ints, chain: Chain) -> Chain:
        """Remove a title at the start of a text that is not where the rest of the text is.

        The title is a heading far above the rest, or words that the document lacks follow it.
        """
        from rapidfuzz.distance import LCSseq

        for number in range(1, min(len(chain), _CUT)):
            (place, position), (next_place, next_position) = chain[number - 1], chain[number]
            if next_place > _CUT + 8:
                break
            between = words[place + RUN : next_place].tolist()
            gap = next_position - position - RUN
            skipped = self._index.ids[next_position - min(gap, len(between) + _SKIP) : next_position]
            is_far = gap - len(between) > _TITLE_GAP and self._is_heading(position)
            if is_far or LCSseq.similarity(between, skipped.tolist()) < len(between):
                return chain[number:]
        return chain

    def _is_heading(self, position: int) -> bool:
        lines = self.documents[self._index.document(position)]
        number = int(self._index.lines[position])
        below = lines[number].strip() if number < len(lines) else ""
        return bool(_HEADING.match(lines[number - 1])) or bool(_UNDERLINE.fullmatch(below))

    def _anchor(self, place: _Place, text: str, contiguous: bool) -> Anchor:
        source = self._index.document(place.first)
        lines = self.documents[source]
        first, last = int(self._index.lines[place.first]), int(self._index.lines[place.last])
        raw = text.strip("\r\n").rstrip()
        # Lines without words, such as fences, are found by comparing the raw text.
        extra = raw.count("\n") + 1 if contiguous else 0
        above = max(1, first - extra)
        window = "\n".join(lines[above - 1 : last + extra])
        offset = window.find(raw) if contiguous else -1
        how: How = "plain" if contiguous else "aligned"
        if offset >= 0:
            how, first = "exact", above + window.count("\n", 0, offset)
            last = first + raw.count("\n")
        similarity = round(place.similarity, 4)
        return Anchor(source=source, line_start=first, line_end=last, similarity=similarity, how=how)


class ChunkLocator(Locator):
    """Finds the lines of the chunks of another program.

    1. The lines that the program claims are used if they contain the chunk's text, apart from case, markup
       and layout, or if the chunk has no text.
    2. Otherwise, the text is searched. Of several places in the chunk's document, the one nearest to the
       claimed lines counts. Without these, the first place that no chunk has counts, if possible after the
       start of the previous chunk.
    3. If no place contains the text, the claimed lines are used, but ``unconfirmed``. Without these, the text
       is located as one that a splitter has changed.
    """

    def __init__(self, root: Path, sources: Iterable[str]) -> None:
        documents: dict[str, Sequence[str]] = {}
        for source in sources:
            with contextlib.suppress(OSError):
                documents[source] = document_lines(root, source)
        super().__init__(documents)
        self._normalized = cache(lambda source: NormalizedLines.of(documents[source]))
        self._taken: set[Span] = set()
        self._last: dict[str, int] = {}

    def find(self, passage: Passage) -> Anchor | Problem:
        """Return the lines of a chunk, or why it has none."""
        claimed = self._claimed(passage)
        if claimed is not None and claimed.how == "claimed":
            anchor: Anchor | Problem = claimed
        elif quoted := self._quoted(passage):
            anchor = self._chosen(quoted, passage)
        else:
            anchor = claimed or super().find(passage)
        if isinstance(anchor, Anchor):
            self._taken.add(anchor.span)
            self._last[anchor.source] = anchor.line_start
        return anchor

    def _quoted(self, passage: Passage) -> list[Anchor]:
        """Return all places that contain the text, apart from case, markup and layout."""
        text, source = normalize(passage.text), self.source_of(passage.source)
        return [
            Anchor(source=each, line_start=first, line_end=last, similarity=1.0, how="plain")
            for each in ([source] if source else self.documents)
            for first, last in (self._normalized(each).quoted(text) if text else ())
        ]

    def _claimed(self, passage: Passage) -> Anchor | None:
        """Return the claimed lines, if the document has these lines."""
        source, first, last = self.source_of(passage.source), passage.line_start or 0, passage.line_end or 0
        if not source or not 1 <= first <= last <= len(self.documents[source]):
            return None
        lines = normalize("\n".join(self.documents[source][first - 1 : last]))
        how: How = "claimed" if normalize(passage.text) in lines else "unconfirmed"
        similarity = float(how == "claimed")
        return Anchor(source=source, line_start=first, line_end=last, similarity=similarity, how=how)

    def _chosen(self, anchors: Sequence[Anchor], passage: Passage) -> Anchor | Problem:
        source, start = self.source_of(passage.source), passage.line_start
        if not source:
            return anchors[0] if len(anchors) == 1 else "ambiguous"
        if start is not None and passage.line_end is not None:
            return min(anchors, key=lambda anchor: (abs(anchor.line_start - start), anchor.line_start))
        last = self._last.get(source, 0)
        return min(
            anchors,
            key=lambda anchor: (anchor.span in self._taken, anchor.line_start < last, anchor.line_start),
        )


def _chains(found: Sequence[Ints], document: Callable[[int], str]) -> list[Chain]:
    """Return chains of the runs of a text that are rare in the corpus, the longest first.

    ``found`` contains the positions of each run, and ``document`` returns the document of a position.
    """
    present = sorted((each for each in enumerate(found) if len(each[1])), key=lambda each: len(each[1]))
    rare = [each for each in present if len(each[1]) <= _RARE] or present[:_RAREST]
    seeds = sorted((position, at) for at, positions in rare for position in positions.tolist())
    chains: list[Chain] = []
    longest = 0
    for group in _neighbors(seeds, document):
        near = group
        for _ in range(_CANDIDATES):
            chain = _longest_chain(near)
            if not chain or 2 * len(chain) < longest:
                break
            chains.append(chain)
            longest = max(longest, len(chain))
            first, last = chain[0][1], chain[-1][1]
            near = [seed for seed in near if not first <= seed[0] <= last]
    return sorted(chains, key=len, reverse=True)[:_CANDIDATES]


def _neighbors(
    seeds: Sequence[tuple[int, int]], document: Callable[[int], str]
) -> Iterator[list[tuple[int, int]]]:
    """Divide seeds, sorted by position, at gaps and at the ends of documents."""
    group: list[tuple[int, int]] = []
    for seed in seeds:
        if group and (seed[0] - group[-1][0] > _GAP or document(seed[0]) != document(group[-1][0])):
            yield group
            group = []
        group.append(seed)
    if group:
        yield group


def _longest_chain(seeds: Sequence[tuple[int, int]]) -> Chain:
    """Return the longest chain of seeds in which text and document advance, as (text, position) pairs.

    Of equally long chains, one is chosen that takes up few words of the document.
    """
    ordered = sorted(seeds, key=lambda seed: (seed[0], -seed[1]))
    ends: list[int] = []  # the smallest last place in the text of a chain of each length
    at: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(ordered):
        length = bisect_left(ends, place)
        before.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        at[length : length + 1] = [number]
    chain: Chain = []
    number = at[-1] if at else -1
    while number >= 0:
        chain.append((ordered[number][1], ordered[number][0]))
        number = before[number]
    chain.reverse()
    positions: dict[int, list[int]] = {}
    for position, place in ordered:
        positions.setdefault(place, []).append(position)
    for number in range(1, len(chain)):  # as early as possible, given the first
        own = positions[chain[number][0]]
        chain[number] = chain[number][0], own[bisect_right(own, chain[number - 1][1])]
    for number in range(len(chain) - 2, -1, -1):  # as late as possible, given the last
        own = positions[chain[number][0]]
        chain[number] = chain[number][0], own[bisect_left(own, chain[number + 1][1]) - 1]
    return chain


def _nearest(words: Ints, document: Ints) -> tuple[list[int], int]:
    """Match words one by one with the next equal word of the document, at most ``_SKIP`` words further on.

    The words after two that the document lacks are left out. Returns the places of the matched words, and the
    number of words of the document up to the last one.
    """
    found: list[int] = []
    reached = missed = 0
    for place, word in enumerate(words[: 2 * _GAP].tolist()):
        if missed == 2:
            break
        here = np.flatnonzero(document[reached : reached + _SKIP] == word)
        if len(here):
            found.append(place)
            reached += int(here[0]) + 1
            missed = 0
        else:
            missed += 1
    return found, reached


def locate(text: str, corpus: str | Path, source: str | None = None) -> Anchor | None:
    """Return the lines of ``text`` in the documents of the folder ``corpus``.

    Returns ``None`` if the text is in no place, or in several. The corpus is read again for each call; use
    :meth:`Workspace.locate <branchrank.Workspace.locate>` or a :class:`Locator` for many texts.
    """
    from branchrank.documents.named import locate_corpus

    return Locator.of(locate_corpus(corpus)).locate(text, source)
