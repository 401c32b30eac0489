"""Find the lines that contain a query's terms, and return them as passages with context, ranked by BM25.

1. The query is split into terms. The query itself is never used as a regular expression.

   - A quoted string (in double quotes, backticks, or single quotes that are not apostrophes) is one term.
   - Each remaining token that looks like code is a term of kind ``identifier``. Examples are ``camelCase``,
     ``snake_case``, ``a.b``, ``A::b``, ``a->b``, ``--flag``, ``@name``, ``path/to`` and ``v2``.
   - Each remaining word that is not a stop word is a term. If a question has only stop words, the stop words
     are the terms.
   - At most :data:`TERM_LIMIT` terms are used, in the question's order. If several terms differ only in case,
     the first of these terms is used.
   - Each pair of letters in a script without spaces (Han, Kana, Thai) is a term of kind ``letters``.
   - A term of kind ``word`` matches only at the start of a word in the line (``form`` finds ``forms`` but not
     ``platform``). Other terms match anywhere. Matching ignores case, soft hyphens and zero-width characters.

2. ripgrep finds every line that contains any of the terms, and every line with characters that ripgrep does
   not ignore or fold (:data:`_UNFOLDED`). Of the lines that are not plain ASCII, those with a term are kept.
3. The context of a match is the ``context_lines`` lines before and after it. Matches whose contexts overlap
   or are adjacent belong to the same passage. If a passage would have more than ``passage_lines`` lines, it
   is divided between two matches. Each part contains the whole context of its matches, so that two parts may
   have lines in common.
4. Passages are sorted by BM25 score, then by path and line. ``ranking="bm25"`` also drops passages with a
   score below the 25th percentile. ``ranking="raw"`` keeps the order of grep, by path and line; a passage's
   score is then 1 / rank. The first ``limit`` passages are returned.
5. Only the files of the returned passages are read, to add the context lines before and after the matches.

BM25's document frequencies are computed over all searched files, not over the passages. The document
frequency ``n`` of a term is the number of files that contain the term, and ``N`` is the number of searched
files. The IDF ``ln(1 + (N - n + 0.5) / (n + 0.5))`` is never negative. The classic IDF ``ln((N - n + 0.5) /
(n + 0.5))``, computed over passages, would be negative for a term that every passage contains. BM25's length
normalization uses the number of lines in a passage as the passage's length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Container, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import regex
from msgspec.structs import replace
from numpy.typing import NDArray

from branchrank.core.letters import EDGE, MARK, START, UNSPACED_RUN, folded, pairs_of, visible
from branchrank.core.records import Record, Span
from branchrank.core.settings import GrepRanking
from branchrank.documents.reading import document_lines
from branchrank.index.stores.analyzer import QUESTION_WORDS
from branchrank.search.files.ripgrep import DEADLINE_S, MatchedLine, Matches, search_files

CONTEXT_LINES = 10
PASSAGE_LINES = 60
LIMIT = 10
PERCENTILE = 25.0
K1 = 1.2
B = 0.75
TERM_LIMIT = 64
TERM_CHARACTERS = 200

_QUOTED = re.compile(r"\"([^\"\n]+)\"|“([^“”\n]+)”|`([^`\n]+)`|(?<!\w)'([^'\n]+)'(?!\w)")
_TOKEN = re.compile(r"(?:->|[^\s()\[\]{}<>\"'`“”‘’,;!?|])+")
_IDENTIFIER = re.compile(r"[_.\\/:@$#=+*%&~^]|->|^--?\w|[^\W\d_]\d|\d[^\W\d_]|[^\W\d_A-Z][A-Z]|[A-Z]{2}[a-z]")
_WORD = regex.compile(rf"{START}(?:.*[{START}{MARK}])?", regex.V1)
_UNSPACED = regex.compile(UNSPACED_RUN, regex.V1)
_EDGE = regex.compile(EDGE, regex.V1)
#: References to soft hyphens and zero-width characters in HTML and Markdown.
_REFERENCES = re.compile(
    r"&(?:shy|zwn?j|ZeroWidthSpace|NoBreak|#173|#820[345]|#8288|#[xX]0*(?:ad|AD|200[bcdBCD]|2060));"
)
#: Characters that are ignored, or equal to others only by normalization or Unicode's full case folding.
_CHARACTERS = (
    r"\xad\x{34f}\x{61c}\x{180b}-\x{180e}\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2069}\x{feff}"
    r"\x{300}-\x{36f}\x{958}-\x{95f}\x{9dc}-\x{9df}\x{a33}-\x{a5e}\x{3099}\x{309a}\x{1100}-\x{11ff}"
    r"ßİıŉǰΐΰև\x{1e96}-\x{1e9e}\x{1f50}-\x{1fff}\x{fb00}-\x{fb4e}"
)
#: A pattern for the lines that ripgrep can't compare with a term.
_UNFOLDED = rf"(?-i:[{_CHARACTERS}])|{_REFERENCES.pattern}"

Scores = NDArray[np.float64]


class Term(Record, frozen=True, kw_only=True):
    """A string to search for. A term of kind ``word`` matches only at the start of a word."""

    text: str
    kind: Literal["quoted", "identifier", "word", "letters"]

    @property
    def pattern(self) -> str:
        """A regular expression for the term in a line of ASCII, which is matched in linear time."""
        literal = re.escape(folded(self.text))
        return rf"\b{literal}" if self.kind == "word" and literal[0].isascii() else literal


def extract_terms(query: str, stop_words: Container[str] = QUESTION_WORDS) -> tuple[Term, ...]:
    """Return the terms in a query. The result is empty only if the query is blank."""
    readable = visible(query.encode("utf-8", "ignore").decode("utf-8"))
    text = "".join(character if character >= " " else "\n" for character in readable)
    found: list[tuple[int, Term]] = []

    def keep_quoted(match: re.Match[str]) -> str:
        literal = next(group for group in match.groups() if group is not None).strip()
        if literal:
            found.append((match.start(), Term(text=literal[:TERM_CHARACTERS], kind="quoted")))
        return " " * (match.end() - match.start())

    def keep_pairs(match: re.Match[str]) -> str:
        found.extend((match.start(), Term(text=pair, kind="letters")) for pair in pairs_of(match[0]))
        return " " * (match.end() - match.start())

    rest: str = _UNSPACED.sub(keep_pairs, _QUOTED.sub(keep_quoted, text))
    stopped: list[tuple[int, Term]] = []
    for match in _TOKEN.finditer(rest):
        token = match.group().rstrip(".:-").lstrip(":")[:TERM_CHARACTERS]
        word = _WORD.search(token)
        if word is None:
            continue
        if _IDENTIFIER.search(token):
            term = Term(text=token, kind="identifier")
        else:
            term = Term(text=word.group(), kind="word")
        stop = term.kind == "word" and (len(term.text) < 2 or folded(term.text) in stop_words)
        (stopped if stop else found).append((match.start(), term))
    if not found:
        found = stopped or [(0, Term(text=token[:TERM_CHARACTERS], kind="quoted")) for token in text.split()]
    distinct: dict[str, Term] = {}
    for _, term in sorted(found, key=lambda item: item[0]):
        distinct.setdefault(folded(term.text), term)
    return tuple(distinct.values())[:TERM_LIMIT]


class GrepPassage(Record, frozen=True, kw_only=True):
    """Matched lines of a file, with the context lines around them.

    ``text`` contains exactly the lines ``line_start..line_end`` of the file. ``matched`` contains the numbers
    of the matched lines. ``score`` is the BM25 score, which is at least 0, or 1 / rank.
    """

    source: str
    line_start: int
    line_end: int
    text: str
    matched: tuple[int, ...]
    score: float = 0.0

    @property
    def span(self) -> Span:
        """The passage's file, and the first and last line of the passage."""
        return Span(source=self.source, line_start=self.line_start, line_end=self.line_end)


class GrepResult(Record, frozen=True, kw_only=True):
    """The passages that a grep search found, best first, and the terms of the query.

    ``weights`` contains the IDF of each term, or only zeros if the passages are not ranked. ``files`` is the
    number of files with a matched line.
    """

    passages: tuple[GrepPassage, ...]
    terms: tuple[Term, ...]
    weights: tuple[float, ...]
    files: int = 0
    notices: tuple[str, ...] = ()

    def relevance(self, text: str) -> float:
        """Return a text's BM25 score for the query, or 0 if the text contains no query term.

        The score is not normalized by the length of the text.
        """
        counts = counts_of(self.terms, text)
        return sum(
            weight * count * (K1 + 1) / (count + K1)
            for weight, count in zip(self.weights, counts, strict=True)
        )


class _Cluster(Record, frozen=True, kw_only=True):
    """Matched lines of one file in one passage, with the passage's ``first`` and ``last`` line.

    The context can begin before the file's first line and end after its last line.
    """

    source: str
    lines: tuple[MatchedLine, ...]
    first: int
    last: int
    score: float = 0.0


class Grep:
    """Searches the files ``sources`` below ``root`` (paths relative to ``root``).

    ``texts`` are a folder and, for each binary document, the name of its text in this folder.
    ``stop_words`` are removed from queries.
    """

    def __init__(
        self,
        root: Path,
        sources: Collection[str],
        *,
        texts: tuple[Path, Mapping[str, str]] = (Path(), {}),
        stop_words: Container[str] = QUESTION_WORDS,
        context_lines: int = CONTEXT_LINES,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._root = root
        self._sources = frozenset(sources)
        self._texts, self._text_of = texts
        self._stop_words = stop_words
        self._context = context_lines
        self._deadline_s = deadline_s

    def search(
        self,
        query: str,
        *,
        ranking: GrepRanking = "order",
        limit: int | None = LIMIT,
        sources: Collection[str] | None = None,
        passage_lines: int = PASSAGE_LINES,
    ) -> GrepResult:
        """Return the first ``limit`` passages with a query term, or all of them if ``limit`` is ``None``.

        If ``passage_lines`` is 0, no passage is divided. ``sources`` restricts the search and BM25's document
        frequencies to the given files. Raises :class:`~branchrank.core.errors.CorpusError` if the root is
        not a folder.
        """
        terms = extract_terms(query, self._stop_words)
        searched = self._sources if sources is None else frozenset(sources)
        found = self._matches(terms, searched)
        clusters = [
            cluster
            for source, lines in found.files.items()
            for cluster in _clusters(source, lines, self._context, passage_lines)
        ]
        weights = [0.0] * len(terms)
        if ranking == "raw":
            clusters = [replace(cluster, score=1.0 / rank) for rank, cluster in enumerate(clusters, start=1)]
        elif clusters:
            percentile = PERCENTILE if ranking == "bm25" else 0.0
            clusters, weights = self._ranked(clusters, terms, len(searched), percentile)
        kept = clusters[:limit]
        contents = {source: self._lines(source) for source in {cluster.source for cluster in kept}}
        passages = (self._passage(cluster, contents[cluster.source]) for cluster in kept)
        return GrepResult(
            passages=tuple(passage for passage in passages if passage is not None),
            terms=terms,
            weights=tuple(weights),
            files=len(found.files),
            notices=found.notices,
        )

    def _matches(self, terms: Sequence[Term], searched: frozenset[str]) -> Matches:
        """Search files of text where they are, and binary documents in their stored texts."""
        # A word can start after a letter of a script without spaces, which is no word character of ASCII.
        # Unicode's word boundaries are also several times slower.
        patterns = [re.sub(r"\A\\b", r"(?-u:\\b)", term.pattern) for term in terms]
        patterns += [_UNFOLDED] if terms else []
        found = search_files(
            self._root, patterns, searched - self._text_of.keys(), deadline_s=self._deadline_s
        )
        stored = {source: self._text_of[source] for source in searched & self._text_of.keys()}
        if not stored:
            return _with_terms(found, terms)
        more = search_files(self._texts, patterns, set(stored.values()), deadline_s=self._deadline_s)
        files = found.files | {
            source: more.files[name] for source, name in stored.items() if name in more.files
        }
        notices = (*found.notices, *more.notices)
        return _with_terms(Matches(files=dict(sorted(files.items())), notices=notices), terms)

    def _ranked(
        self, clusters: list[_Cluster], terms: Sequence[Term], files: int, percentile: float
    ) -> tuple[list[_Cluster], list[float]]:
        """Return the clusters at or above a percentile of the scores, best first, and each term's IDF."""
        scores, weights = _bm25(clusters, terms, files)
        floor = np.percentile(scores, percentile)
        order = np.lexsort((np.arange(len(clusters)), -scores))
        kept = [replace(clusters[i], score=float(scores[i])) for i in order if scores[i] >= floor]
        return kept, weights

    def _lines(self, source: str) -> list[str]:
        """Return a file's lines, or an empty list if the file can't be read safely."""
        try:
            return document_lines(self._root, source)
        except OSError:
            return []

    def _passage(self, cluster: _Cluster, lines: list[str]) -> GrepPassage | None:
        """Return a cluster's passage, or ``None`` if the file no longer has the cluster's last line."""
        if cluster.lines[-1].number > len(lines):
            return None
        first, last = max(1, cluster.first), min(len(lines), cluster.last)
        return GrepPassage(
            source=cluster.source,
            line_start=first,
            line_end=last,
            text="\n".join(lines[first - 1 : last]),
            matched=tuple(line.number for line in cluster.lines),
            score=cluster.score,
        )


def _with_terms(found: Matches, terms: Sequence[Term]) -> Matches:
    """Drop the lines without a term, which were found because of characters that only folding removes."""
    kept = {
        source: [
            line
            for line in lines
            if (line.text.isascii() and "&" not in line.text) or any(counts_of(terms, line.text))
        ]
        for source, lines in found.files.items()
    }
    return replace(found, files={source: lines for source, lines in kept.items() if lines})


def _clusters(source: str, lines: Sequence[MatchedLine], context: int, most: int) -> list[_Cluster]:
    """Group a file's matched lines whose contexts touch, into passages of at most ``most`` lines (0: any)."""
    groups: list[list[MatchedLine]] = []
    for line in lines:
        touches = groups and line.number - groups[-1][-1].number <= 2 * context + 1
        if touches and (not most or line.number - groups[-1][0].number + 2 * context < most):
            groups[-1].append(line)
        else:
            groups.append([line])
    ends = [(group[0].number - context, group[-1].number + context, tuple(group)) for group in groups]
    return [_Cluster(source=source, lines=own, first=first, last=last) for first, last, own in ends]


def _bm25(clusters: Sequence[_Cluster], terms: Sequence[Term], files: int) -> tuple[Scores, list[float]]:
    """Return the clusters' BM25 scores (shape ``(clusters,)``, at least 0) and the IDF of each term.

    Terms are counted only in the matched lines. No occurrence is missed, because every line that contains a
    term is a matched line.
    """
    texts = [_comparable("\n".join(line.text for line in cluster.lines)) for cluster in clusters]
    ends = np.cumsum([len(text) + 1 for text in texts])
    whole = "\n".join(texts)  # terms contain no line breaks, so no match spans two clusters
    lengths = np.array([cluster.last - cluster.first + 1 for cluster in clusters], float)
    _, source_of = np.unique([cluster.source for cluster in clusters], return_inverse=True)
    scores = np.zeros(len(clusters))
    weights = []
    saturation = K1 * (1 - B + B * lengths / lengths.mean())
    for term in terms:
        places = np.array(_occurrences(term, whole), dtype=np.intp)
        counts = np.bincount(np.searchsorted(ends, places, side="right"), minlength=len(clusters))
        holding = len(np.unique(source_of[counts > 0]))
        weights.append(math.log1p((max(files, holding) - holding + 0.5) / (holding + 0.5)))
        scores += weights[-1] * counts * (K1 + 1) / (counts + saturation)
    return scores, weights


def counts_of(terms: Sequence[Term], text: str) -> list[int]:
    """Return how often each term occurs in ``text``, after folding."""
    comparable = _comparable(text)
    return [len(_occurrences(term, comparable)) for term in terms]


def _comparable(text: str) -> str:
    return folded(_REFERENCES.sub("", text) if "&" in text else text)


def _occurrences(term: Term, comparable: str) -> list[int]:
    """Return the offsets of a term's non-overlapping matches in a folded text, ascending."""
    literal = folded(term.text)
    found = []
    at = comparable.find(literal)
    while at >= 0:
        # The check of one character decides in most texts, and is faster.
        before = comparable[at - 1 : at]
        inside = term.kind == "word" and (before.isalnum() or not before.isascii() or before == "_")
        inside = inside and not _EDGE.match(comparable, at)
        if not inside:
            found.append(at)
        at = comparable.find(literal, at + (1 if inside else len(literal)))
    return found


def marked_lines(text: str, first: int, matched: Collection[int]) -> str:
    """Return ``text`` with line numbers, starting at ``first``, and ``>`` before each matched line."""
    lines = text.replace("\r\n", "\n").split("\n")
    width = len(str(first + len(lines) - 1))
    return "\n".join(
        f"{'>' if number in matched else ' '} {number:{width}} | {line}"
        for number, line in enumerate(lines, start=first)
    )
