"""The search tools ``grep_search``, ``vector_search``, ``hybrid_search`` and ``read_file``.

Each search tool runs a system on the engine, and ranks results in the same way as a predictor.

1. ``grep_search`` finds the passages that contain words from the query, in the order of ``ranking``. Matches
   whose contexts overlap or are adjacent are in one passage. If the passages do not fit in an answer, the
   longest passages end after the context of an earlier match.
2. ``vector_search`` finds the nearest chunks. Chunks at or beyond the distance threshold (squared L2 distance
   between unit vectors) are dropped. A notice reports how many of the candidates are below the threshold.
3. ``hybrid_search`` runs the ``grep`` predictor, which fuses the results of grep and vector search with RRF.
4. The status of an answer has the number of returned characters and the number of found files or chunks.

``read_file`` returns lines of an indexed file with their numbers.

A citation consists of a file's path and a range of lines.
"""

from __future__ import annotations

import copy
import io
import itertools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from branchrank.core.errors import at_least_one, check_choice
from branchrank.core.records import Hit, Record, Retrieval, Span
from branchrank.core.settings import GrepRanking, GrepSettings
from branchrank.core.spec import Branch, Fuse, System, Unit
from branchrank.search.files.grep_search import marked_lines
from branchrank.search.files.read_file import FileReader, FileRefused
from branchrank.search.systems.builtin import grep
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.query import Query, read_filters

TOP = 10
#: The maximum number of passages that ``grep_search`` ranks.
GREP_DEPTH = 1000

FoundUnit = Literal["files", "chunks", "sections", "passages", "lines"]
#: Maps each unit of a system to the word that messages use for the system's candidates.
FOUND_UNITS: dict[Unit, FoundUnit] = {"chunk": "chunks", "node": "sections", "span": "passages"}
#: The most text that an answer's results contain.
ANSWER_BYTES = 32 * 1024
#: One or more filters of the form ``KEY=VALUE``. A document must pass every filter.
Filters = str | Sequence[str]


class SearchStatus(Record, frozen=True, kw_only=True):
    """Counts and notices of one answer, for a status line.

    ``characters`` is the number of characters returned, and ``cut`` the number that did not fit in the
    answer. For ``grep_search``, ``count`` is the number of files with a match. For ``read_file``, it is the
    number of lines returned. For all other tools, ``count`` is the number of fused candidates before the list
    is truncated to ``limit``.
    """

    tool: str
    characters: int
    count: int
    unit: FoundUnit
    notices: tuple[str, ...] = ()
    cut: int = 0

    @property
    def message(self) -> str:
        """The status as one line of text."""
        counts = ((self.characters, "characters"), (self.count, self.unit))
        found = ", ".join(f"{count:,} {word[:-1] if count == 1 else word}" for count, word in counts)
        return "; ".join([f"{self.tool}: {found}", *self.notices])


class Found(Record, frozen=True, kw_only=True):
    """One result from a search tool, or the lines that ``read_file`` returned (``numbered``)."""

    hit: Hit
    numbered: bool = False

    @property
    def citation(self) -> str:
        """The file's path and the range of lines, in the form ``path:first-last``."""
        return self.hit.span.citation

    @property
    def marked(self) -> str:
        """The text with line numbers and ``>`` before matched lines, or the plain text if no line matched."""
        if self.numbered:
            text = self.hit.text.removesuffix("\n").removesuffix("\r")
            return marked_lines(text, self.hit.line_start, ())
        if not self.hit.matched:
            return self.hit.plain
        return marked_lines(self.hit.text, self.hit.line_start, self.hit.matched)


class ToolAnswer(Record, frozen=True, kw_only=True):
    """A search tool's answer, with its results, best first, and its status."""

    results: tuple[Found, ...]
    status: SearchStatus

    @property
    def shown(self) -> tuple[Span, ...]:
        """The lines of each result."""
        return tuple(found.hit.span for found in self.results)

    @property
    def text(self) -> str:
        """The answer as text: first the notices, then each result, preceded by its citation."""
        notes = [f"note: {notice}" for notice in self.status.notices]
        results = [f"[{found.citation}]\n{found.marked}" for found in self.results]
        nothing = [] if results or self.status.cut else ["nothing found"]
        return "\n\n".join([*notes, *results, *nothing])


class SearchTools:
    """The search tools of one engine. Thread-safe."""

    def __init__(self, engine: Engine, *, allowed_paths: Sequence[Path] = ()) -> None:
        """``read_file`` may read the indexed files and non-hidden files below ``allowed_paths``."""
        self.engine = engine
        self._allowed_paths = allowed_paths
        self._restrict(Query(text=""))

    def _restrict(self, query: Query) -> None:
        self._within, sources = query, self.engine.sources
        admitted = sources.admitted_sources(query.filters)
        self.reader = FileReader(sources.corpus_root, admitted, self._allowed_paths)

    def within(self, query: Query) -> SearchTools:
        """Return the same tools, without what the query's filters and excluded spans reject.

        Search tools return no passage that overlaps an excluded span, and ``read_file`` skips excluded lines.
        """
        made = copy.copy(self)
        made._restrict(query)
        return made

    def grep_search(
        self, query: str, *, ranking: GrepRanking | None = None, limit: int = TOP, filters: Filters = ()
    ) -> ToolAnswer:
        """Return passages that contain words from the query.

        ``ranking`` is ``order`` (by BM25 score), ``bm25`` (the lowest-scoring quarter is dropped) or ``raw``
        (by file and line). The default is the setting ``grep.ranking``.
        """
        branch = Branch(kind="grep", unit="span", top_n=GREP_DEPTH, options={"passage_lines": 0})
        found = self._retrieve(_with_ranking(_alone("grep_search", branch), ranking), query, limit, filters)
        context = self.engine.settings.part(GrepSettings).context_lines
        fitted = _fitted(found.hits, context, ANSWER_BYTES)
        cut = _characters(found.hits) - _characters(fitted)
        if shortened := sum(new.line_end < old.line_end for new, old in zip(fitted, found.hits, strict=True)):
            notice = f"{shortened} of {len(fitted)} passages shortened to fit in an answer"
            found = msgspec.structs.replace(found, hits=fitted, notices=(*found.notices, notice))
        return self._answer("grep_search", found, found.found.get("grep", 0), "files", cut)

    def vector_search(self, query: str, *, limit: int = TOP, filters: Filters = ()) -> ToolAnswer:
        """Return the nearest chunks below the distance threshold."""
        (branch,) = (each for each in grep(self.engine.settings).branches if each.kind == "dense")
        found = self._retrieve(_alone("vector_search", branch), query, limit, filters)
        return self._answer("vector_search", found, _fused(found), "chunks")

    def hybrid_search(
        self,
        semantic_query: str,
        exact_keywords: str = "",
        *,
        ranking: GrepRanking | None = None,
        limit: int = TOP,
        filters: Filters = (),
    ) -> ToolAnswer:
        """Return the fused results of the vector search and grep.

        grep searches for ``exact_keywords``, or for the words of ``semantic_query`` if ``exact_keywords`` is
        empty.
        """
        system = _with_ranking(grep(self.engine.settings), ranking)
        found = self._retrieve(system, semantic_query, limit, filters, exact_keywords)
        return self._answer("hybrid_search", found, _fused(found), "chunks")

    def predictor_search(
        self, system: System, query: str, *, limit: int = TOP, filters: Filters = ()
    ) -> ToolAnswer:
        """Return a system's results in the form of a search tool's answer."""
        found = self._retrieve(system, query, limit, filters)
        return self._answer(f"predictor {system.name}", found, _fused(found), FOUND_UNITS[system.unit])

    def read_file(self, path: str, line_start: int = 1, lines: int | None = None) -> str:
        """Return ``lines`` lines of an indexed file, or an error message with a code and the reason.

        The text is exact, without line numbers and without a limit. By default, it is the whole file.
        """
        try:
            return "".join(self._lines(path, line_start, lines)[1])
        except FileRefused as refusal:
            return str(refusal)

    def file_lines(self, path: str, line_start: int = 1, lines: int | None = None) -> ToolAnswer:
        """Return ``lines`` lines of an indexed file with their numbers, as many as fit in an answer.

        Raises :class:`~branchrank.search.files.read_file.FileRefused` for a file that is not allowed or can't
        be read, and if the file ends before ``line_start``.
        """
        source, asked, total = self._lines(path, line_start, lines)
        # Each line has its number in front.
        sizes = itertools.accumulate(len(line.encode()) + len(f"> {total} | ") + 1 for line in asked)
        kept = asked[: sum(size <= ANSWER_BYTES for size in sizes)]
        if asked and not kept:
            kept = [asked[0].encode()[:ANSWER_BYTES].decode(errors="ignore")]
        text, last = "".join(kept), line_start + len(kept) - 1
        cut = sum(map(len, asked)) - len(text)
        notice = f"lines {line_start}-{last} of {total:,}" if total else "the file is empty"
        if cut:
            notice += f"; {cut:,} more characters"
        if len(kept) < len(asked):
            notice += f": call read_file with line_start={last + 1}"
        status = SearchStatus(
            tool="read_file",
            characters=len(text),
            count=sum(map(bool, kept)),
            unit="lines",
            notices=(notice,) if cut or len(kept) < total or not total else (),
            cut=cut,
        )
        results = []
        for is_shown, group in itertools.groupby(enumerate(kept, line_start), lambda row: bool(row[1])):
            numbers, shown = zip(*group, strict=True)
            span = Span(source=source, line_start=numbers[0], line_end=numbers[-1])
            hit = Hit(id=span.citation, **msgspec.structs.asdict(span), text="".join(shown), score=0.0)
            results += [Found(hit=hit, numbered=True)] if is_shown else []
        return ToolAnswer(results=tuple(results), status=status)

    def _lines(self, path: str, line_start: int, lines: int | None) -> tuple[str, list[str], int]:
        """Return the file's name, the lines that were asked for, and the number of lines of the file.

        Excluded lines are empty, even without a line break.
        """
        at_least_one("line_start", line_start)
        source, text = self.reader.read(path)
        every = [*io.StringIO(text, newline="\n")]
        if line_start > max(1, len(every)):
            number = f"{source!r} has {len(every)} lines, but line_start={line_start}"
            raise FileRefused("NO_SUCH_LINE", number)
        end = None if lines is None else line_start - 1 + at_least_one("lines", lines)
        for span in self._within.excluded:
            if span.source == source:
                excluded = slice(span.line_start - 1, span.line_end)
                every[excluded] = [""] * len(every[excluded])
        return source, every[line_start - 1 : end], len(every)

    def _retrieve(
        self, system: System, query: str, limit: int, filters: Filters, keywords: str = ""
    ) -> Retrieval:
        limit = at_least_one("limit", limit, TOP)
        text = query if query.strip() else keywords
        own = (*self._within.filters, *read_filters(filters))
        asked = Query(text=text, keywords=keywords, filters=own, excluded=self._within.excluded)
        return self.engine.retrieve(system, asked, limit) if text.strip() else Retrieval(hits=())

    def _answer(
        self, tool: str, retrieval: Retrieval, count: int, unit: FoundUnit, cut: int = 0
    ) -> ToolAnswer:
        shown, left_out, room = list[Found](), list[Found](), ANSWER_BYTES
        for each in (Found(hit=hit) for hit in retrieval.hits):
            size = len(each.marked.encode())
            (shown if size <= room else left_out).append(each)
            room -= size if size <= room else 0
        notices = [*retrieval.remarks, *(f"fallback: {fallback}" for fallback in retrieval.fallbacks)]
        if left_out:
            reason = f"because an answer has at most {ANSWER_BYTES / 1024:.3g} KiB of text"
            named = ", ".join(each.citation for each in left_out)
            notices.append(f"{len(left_out)} of {len(retrieval.hits)} results left out, {reason}: {named}")
        status = SearchStatus(
            tool=tool,
            characters=_characters(each.hit for each in shown),
            count=count,
            unit=unit,
            notices=tuple(notices),
            cut=cut + _characters(each.hit for each in left_out),
        )
        return ToolAnswer(results=tuple(shown), status=status)


def _characters(hits: Iterable[Hit]) -> int:
    return sum(len(hit.plain) for hit in hits)


def _fused(found: Retrieval) -> int:
    """Return the number of candidates after the fusion."""
    return sum(len(stage.keys) for stage in found.trace if stage.stage == "fusion")


def _size(hit: Hit) -> int:
    return len(Found(hit=hit).marked.encode())


def _fitted(hits: Sequence[Hit], context: int, room: int) -> tuple[Hit, ...]:
    """Return the hits, with the longest ones shortened so that all of them fit in ``room`` bytes."""
    share = room
    for number, size in enumerate(sorted(map(_size, hits))):
        share = room // (len(hits) - number)
        room -= min(size, share)
    return tuple(hit if _size(hit) <= share else _shortened(hit, share, context) for hit in hits)


def _shortened(hit: Hit, size: int, context: int) -> Hit:
    """Return a passage that ends after the context of the last match that fits in ``size`` bytes."""

    def first(matches: int) -> Hit:
        last = min(hit.matched[matches - 1] + context, hit.line_end)
        text = "\n".join(hit.text.split("\n")[: last - hit.line_start + 1])
        made = {"id": f"{hit.source}:{hit.line_start}-{last}", "line_end": last, "text": text}
        plain, matched = text.replace("\r\n", "\n"), hit.matched[:matches]
        return msgspec.structs.replace(hit, plain=plain, matched=matched, **made)

    fitting = bisect_right(range(1, len(hit.matched)), size, key=lambda matches: _size(first(matches)))
    return first(max(1, fitting))


def _alone(name: str, branch: Branch) -> System:
    """Return a system that runs only ``branch`` and does not change the branch's scores."""
    return System(name=name, branches=(branch,), fuse=Fuse(method="none"))


def _with_ranking(system: System, ranking: GrepRanking | None) -> System:
    """Return the system with ``ranking`` set in its ``grep`` branches.

    If ``ranking`` is ``None``, the system is returned unchanged.
    """
    if ranking is None:
        return system
    check_choice("ranking", ranking, get_args(GrepRanking))
    branches = tuple(
        msgspec.structs.replace(branch, options={**branch.options, "ranking": ranking})
        if branch.kind == "grep"
        else branch
        for branch in system.branches
    )
    return msgspec.structs.replace(system, branches=branches)
