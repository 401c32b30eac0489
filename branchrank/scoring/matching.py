"""Match hits with a question's gold, under strict or relaxed criteria.

1. Hits that overlap one of the question's ``excluded_spans`` are removed before the other hits are ranked.
2. A hit's source is compared with the gold's source. A hit in a source from ``source_aliases`` is matched as
   if it were at the same lines in the source of the question's first gold item.
3. Under the strict criterion, a hit is correct if its source matches and its lines overlap the gold lines, or
   if its source matches and its text, raw or plain, contains the normalized ``answer_quote``. File-level gold
   (``gold_level`` is ``file``, or the item has neither lines nor a quote) does not specify lines, so any hit
   from the file is a strict hit.
4. Under the half (or full) criterion, a hit is correct if its source matches and the hit alone contains at
   least half (or all) of the gold item's lines with content
   (:func:`~branchrank.documents.lines.blank_lines`). If an item has no lines, a strict hit is also a half
   hit and a full hit.
5. Under the relaxed criterion, a hit is correct if its source is the source of a gold item.
6. A hit is credited with every gold item that it is the first to match, and with its gold page (source) if
   it is the first hit on it. No measure therefore counts the same gold twice.

Each hit has a gain of 0 or more. The gain of a hit that is credited with gold items is the largest
``relevance`` (2 by default) of these items. Of the hits on a gold page that are not credited with a gold
item, the first hit has a gain of 1. All remaining hits have a gain of 0. On a page that has only file-level
gold, all hits except the first have a gain of 0. Measures are computed from a
:class:`~branchrank.scoring.measures.Ranking`, which :meth:`Judged.ranking` returns for each mode.

Every line of a TREC run has a document id. A hit that is credited with gold items has the id of the item with
the largest gain, such as ``gold-1``. Of the hits on a gold page that are not credited with a gold item, the
first hit has the page's id, such as ``page-1``. The document id of any other hit is its span, such as
``source:12-30``. Characters that TREC files don't allow are percent-encoded, and ``~2`` is added to an id
that occurs a second time. In the qrels, the grade of a gold item is its ``relevance`` (2 by default), and the
grade of a page is 1. From the exported run and qrels, ir-measures and trec_eval compute the same values as
the ``graded`` mode of :class:`~branchrank.scoring.matching.Judged`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np

from branchrank.core.records import (
    Count,
    GoldItem,
    GoldLevel,
    Grade,
    Hit,
    LineNumber,
    Placement,
    Question,
    Record,
    Span,
)
from branchrank.documents.lines import blank_lines, normalize
from branchrank.scoring.measures import Mode, Ranking

#: For each mode, the share of a gold item's lines that a hit must contain to be correct.
SHARES: dict[Mode, float] = {"half": 0.5, "full": 1.0}

#: The levels of gold (some lines, or a whole file), in the order in which reports show them.
GOLD_LEVELS: tuple[GoldLevel, ...] = ("span", "file")
AnyHit = TypeVar("AnyHit", "Hit", "JudgedHit")
STRICT_GAIN = 2
RELAXED_GAIN = 1


def without_excluded(hits: Sequence[AnyHit], question: Question) -> tuple[AnyHit, ...]:
    """Return the hits, in the same order, without those that share a line with an excluded span.

    Otherwise, a longer passage could return the excluded lines, and a shorter passage could not.
    """
    return tuple(hit for hit in hits if not any(map(hit.span.overlap, question.excluded_spans)))


def resolve_source(source: str, question: Question) -> str:
    """Return the source of the question's first gold item if ``source`` is an alias, else ``source``."""
    if question.gold and source in question.source_aliases:
        return question.gold[0].source_file
    return source


def is_file_level(item: GoldItem, question: Question) -> bool:
    """Return whether the gold item is a whole file, without lines or a quote."""
    return question.gold_level == "file" or (item.span is None and not item.answer_quote)


def gold_level(question: Question) -> GoldLevel:
    """Return ``file`` if all of the question's gold items are whole files, else ``span``."""
    whole = all(is_file_level(item, question) for item in question.gold)
    return "file" if question.gold and whole else "span"


def has_lines(item: GoldItem, question: Question) -> bool:
    """Return whether the gold item specifies lines."""
    return item.span is not None and not is_file_level(item, question)


def is_relaxed(hit: Hit, item: GoldItem, question: Question) -> bool:
    """Return whether the hit is from the item's source, or from an alias of the source."""
    return resolve_source(hit.source, question) == item.source_file


def is_strict(hit: Hit, item: GoldItem, question: Question) -> bool:
    """Return whether the hit matches the gold item under the strict criterion.

    A hit from the item's source matches if the hit overlaps the item's lines or contains the item's quote. If
    the item is a whole file, every hit from the file matches.
    """
    return is_relaxed(hit, item, question) and (
        is_file_level(item, question) or _overlaps(hit, item) or _quotes(hit, item)
    )


def _overlaps(hit: Hit, item: GoldItem) -> bool:
    gold = item.span
    return gold is not None and hit.line_start <= gold.line_end and gold.line_start <= hit.line_end


def _quotes(hit: Hit, item: GoldItem) -> bool:
    quote = normalize(item.answer_quote or "")
    return bool(quote) and any(quote in normalize(text) for text in {hit.text, hit.plain})


class JudgedHit(Record, frozen=True, kw_only=True, gc=False):
    """A hit with its judgment, as stored in a run's rows, without its text.

    ``characters`` and ``tokens`` are the length of the hit's text. All token counts use the same tokenizer,
    whichever model embeds the text. ``blank_lines`` is the number of its lines without content. In rows from
    older versions, ``tokens`` and ``blank_lines`` are ``None``.

    ``gain`` is the hit's gain in ``graded`` mode. ``gold`` is the index (in ``Question.gold``) of the gold
    item with the largest gain that the hit is credited with, and ``also_gold`` has the indices of the other
    items that it is credited with, which older versions did not store. ``page`` is the index (in
    :func:`gold_pages`) of the gold page that the hit is on, even if an earlier hit is on the same page.
    """

    id: str
    source: str
    line_start: LineNumber
    line_end: LineNumber
    characters: Count
    score: float
    gain: Grade
    tokens: Count | None = None
    blank_lines: Count | None = None
    gold: Count | None = None
    also_gold: tuple[Count, ...] | msgspec.UnsetType = msgspec.UNSET
    page: Count | None = None
    node_id: str | None = None
    distance: float | None = None
    branches: dict[str, Placement] = msgspec.field(default_factory=dict)
    fallback: str | None = None

    @property
    def span(self) -> Span:
        """The hit's file and line range."""
        return Span(source=self.source, line_start=self.line_start, line_end=self.line_end)

    @property
    def credits(self) -> tuple[int, ...]:
        """The indices (in ``Question.gold``) of all gold items that the hit is credited with."""
        return () if self.gold is None else (self.gold, *(self.also_gold or ()))


class Judged(Record, frozen=True, kw_only=True):
    """The judged hits for one question, best first.

    ``blank_lines`` maps the source of each gold item to its lines without content, sorted.
    """

    hits: tuple[JudgedHit, ...]
    question: Question
    blank_lines: Mapping[str, Sequence[int]] = msgspec.field(default_factory=dict)

    def ranking(self, mode: Mode) -> Ranking:
        """Return the ranking for measures with the scoring ``mode``.

        In the modes ``strict``, ``half`` and ``full``, each gold item has a gain of 2. Depending on the mode,
        an item is credited to the first hit that matches the item (``strict``), to the first hit that
        contains at least half of the item's lines (``half``), or to the first hit that contains all of the
        item's lines (``full``). In ``relaxed`` mode, each gold page has a gain of 1, and the first hit on a
        gold page is credited with the page. In ``graded`` mode, gold items and gold pages have the same gains
        as in exported TREC files. For gold without ``relevance``, ``Success(rel=2)@1`` in ``graded`` mode is
        strict hit@1, and ``Success@1`` in ``graded`` mode is relaxed hit@1.

        The gold items of a group in ``Question.needs``, or their pages, are one item with their largest gain.
        """
        question, ranked, groups = self.question, list(enumerate(self.hits, start=1)), self.question.needs
        weak = gold_pages(question)
        pages = {source: page for page, source in enumerate(weak)}
        sets = [[pages[question.gold[item].source_file] for item in group] for group in groups]
        if mode == "relaxed":
            ranks = {hit.page: rank for rank, hit in reversed(ranked) if hit.page is not None}
            gains = dict.fromkeys(ranks.values(), RELAXED_GAIN)
            items = _items(ranks, dict.fromkeys(pages.values(), RELAXED_GAIN), sets)
        elif mode == "graded":
            gains = {rank: hit.gain for rank, hit in ranked if hit.gain}
            exact = _items(self._credited(None), dict(enumerate(gold_gains(question))), groups)
            ranks = {hit.page or 0: rank for rank, hit in ranked if hit.gain and hit.gold is None}
            of_pages = {page: RELAXED_GAIN for source, page in pages.items() if weak[source]}
            other = _items(ranks, of_pages, sets)
            needs = self.ranking("relaxed").needs
            wrong = judged_wrong(question)
            gains |= {rank: 0 for rank, hit in ranked if resolve_source(hit.source, question) in wrong}
            items = _Items(exact.found + other.found, exact.gold + other.gold + (0,) * len(wrong), needs)
        else:
            ranks = self._credited(SHARES.get(mode))
            gains = dict.fromkeys(ranks.values(), STRICT_GAIN)
            items = _items(ranks, dict.fromkeys(range(len(question.gold)), STRICT_GAIN), groups)
        return Ranking(
            gains=tuple(sorted(gains.items())),
            returned=len(self.hits),
            gold=items.gold,
            items=tuple(sorted(items.found)),
            needs=items.needs,
        )

    def resolved(self, hit: JudgedHit) -> Span:
        """Return the hit's lines, in the first gold item's source if the hit's source is an alias of it."""
        return msgspec.structs.replace(hit.span, source=resolve_source(hit.source, self.question))

    def gold_lines(self, gold: Span, spans: Sequence[Span]) -> int:
        """Count the lines with content that ``gold`` shares with disjoint spans.

        All lines of gold that has no line with content count.
        """
        blank = self.blank_lines.get(gold.source, ())
        blank = blank if gold.overlap(gold, blank) else ()
        return sum(gold.overlap(span, blank) for span in spans)

    def _holds(self, hit: JudgedHit, gold: Span, share: float) -> bool:
        """Return whether the hit contains at least ``share`` (0 to 1) of the gold's lines with content."""
        return self.gold_lines(gold, [self.resolved(hit)]) >= share * self.gold_lines(gold, [gold])

    def _credited(self, share: float | None) -> dict[int, int]:
        """Map each gold item that a hit found to the rank of the first such hit.

        With a ``share``, an item with lines is found by a hit with at least this share of the lines.
        """
        gold, ranks = self.question.gold, dict[int, int]()
        for rank, hit in enumerate(self.hits, start=1):
            for number in hit.credits if share is None else range(len(gold)):
                span = gold[number].span if share and has_lines(gold[number], self.question) else None
                if number in hit.credits if span is None else self._holds(hit, span, share or 0):
                    ranks.setdefault(number, rank)
        return ranks


class _Items(NamedTuple):
    found: tuple[tuple[int, int], ...]
    gold: tuple[int, ...]
    needs: tuple[int | None, ...]


def _items(ranks: Mapping[int, int], gains: Mapping[int, int], groups: Sequence[Sequence[int]]) -> _Items:
    """Return the items that measures count: each group of gold, and each gold that is in no group.

    ``ranks`` has the rank of the gold that was found, and ``gains`` the gain of all gold.
    """
    grouped = {key for group in groups for key in group}
    members = [[key for key in group if key in gains] for group in groups]
    units = [*filter(None, members), *([key] for key in gains if key not in grouped)]
    gold = tuple(max(gains[key] for key in unit) for unit in units)
    first = [min((ranks[key] for key in unit if key in ranks), default=None) for unit in units]
    found = tuple((rank, gain) for rank, gain in zip(first, gold, strict=True) if rank is not None)
    return _Items(found, gold, tuple(first[: len(groups)]))


def gold_gain(item: GoldItem) -> int:
    """Return the gain of a gold item in ``graded`` mode."""
    return item.relevance or STRICT_GAIN


def gold_gains(question: Question) -> tuple[int, ...]:
    """Return the gain of each gold item in ``graded`` mode."""
    return tuple(map(gold_gain, question.gold))


def gold_pages(question: Question) -> dict[str, bool]:
    """Return the distinct gold sources, and for each source whether a gold item has lines or a quote.

    On a page for which this is true, a hit can have the relaxed gain of 1 in ``graded`` mode.
    """
    weak: dict[str, bool] = {}
    for item in question.gold:
        weak[item.source_file] = weak.get(item.source_file, False) or not is_file_level(item, question)
    return weak


def judge(hits: Sequence[Hit], question: Question) -> Judged:
    """Judge one question's ``hits``, sorted best first, after removing the hits that overlap excluded spans.

    Pass an empty list of hits for a failed query. If a question has no gold (``answerable`` is false), its
    hits are not credited.
    """
    weak_pages = gold_pages(question)
    pages = list(weak_pages)
    covered: set[int] = set()
    weakly_credited: set[str] = set()
    judged = []
    for hit in without_excluded(hits, question):
        source = resolve_source(hit.source, question)
        matched = {i for i, item in enumerate(question.gold) if is_strict(hit, item, question)} - covered
        covered |= matched
        covers = sorted(matched, key=lambda i: (-gold_gain(question.gold[i]), i))
        gain = 0
        if covers:
            gain = gold_gain(question.gold[covers[0]])
        elif weak_pages.get(source) and source not in weakly_credited:
            weakly_credited.add(source)
            gain = RELAXED_GAIN
        judged.append(
            JudgedHit(
                id=hit.id,
                source=hit.source,
                line_start=hit.line_start,
                line_end=hit.line_end,
                characters=len(hit.plain),
                score=hit.score,
                gain=gain,
                blank_lines=len(blank_lines(hit.text.split("\n"))),
                gold=covers[0] if covers else None,
                also_gold=tuple(sorted(covers[1:])) or msgspec.UNSET,
                page=pages.index(source) if source in pages else None,
                node_id=hit.node_id,
                distance=hit.distance,
                branches=hit.branches,
                fallback=hit.fallback,
            )
        )
    return Judged(hits=tuple(judged), question=question)


def source_cluster(question: Question) -> str:
    """Return the cluster that all tests use for the question: the source of its first gold item.

    A question forms its own cluster if it has no gold, or if its gold consists of documents judged for
    relevance (:attr:`~branchrank.core.records.GoldItem.relevance`), as in TREC and BEIR datasets. Queries in
    TREC and BEIR datasets are not made from a single document, so grouping them by the source of the first
    gold item would be arbitrary.
    """
    if question.gold and not is_judged(question):
        return question.gold[0].source_file
    return f"question {question.id}"


def is_judged(question: Question) -> bool:
    """Return whether the gold consists of documents judged for relevance, as in TREC and BEIR datasets."""
    return question.gold_level == "file" and bool(question.gold) and question.gold[0].relevance is not None


#: The key that lists the sources of the documents that were judged not relevant.
JUDGED_WRONG = "judged_wrong"


def judged_wrong(question: Question) -> frozenset[str]:
    """Return the sources of the documents that were judged not relevant to the question."""
    given = question.extra.get(JUDGED_WRONG)
    listed = frozenset(map(str, given)) if isinstance(given, list) else frozenset[str]()
    return listed - {item.source_file for item in question.gold}


def question_qrels(question: Question) -> dict[str, int]:
    """Return the relevance of each gold item and gold page, by document id.

    The relevance of a gold item is its ``relevance`` (2 by default), and the relevance of a gold page is 1.
    Pages with only file-level gold are omitted, because every hit on such a page matches a gold item.
    """
    qrels = {f"gold-{number}": gain for number, gain in enumerate(gold_gains(question), start=1)}
    weak_pages = gold_pages(question).values()
    qrels |= {f"page-{number}": RELAXED_GAIN for number, weak in enumerate(weak_pages, start=1) if weak}
    return qrels


def question_run(judged: Judged) -> dict[str, float]:
    """Map the document ids for the n judged hits, best first, to the scores n, n-1, ..., 1.

    The scores are whole numbers, since trec_eval reads scores in single precision, in which close scores
    would become equal.
    """
    ids: dict[str, None] = {}
    for hit in judged.hits:
        if hit.gold is not None:
            name = f"gold-{hit.gold + 1}"
        elif hit.gain:
            name = f"page-{(hit.page or 0) + 1}"
        else:
            span = f"{quote(hit.source, safe='/._-~')}:{hit.line_start}-{hit.line_end}"
            name, repeat = span, 1
            while name in ids:
                repeat += 1
                name = f"{span}~{repeat}"
        ids[name] = None
    return falling(ids)


def falling(ids: Collection[str]) -> dict[str, float]:
    """Map n ids, best first, to the scores n, n-1, ..., 1."""
    return {name: float(len(ids) - place) for place, name in enumerate(ids)}


def run_ranking(run: Mapping[str, float], qrels: Mapping[str, int]) -> Ranking:
    """Rank the hits in another program's TREC run in the same order as trec_eval, and judge the hits.

    ``run`` maps document ids to finite scores. Hits are sorted by score in single precision (descending),
    then by document id (descending).

    Ranks are computed only for judged documents.
    """
    with np.errstate(over="ignore"):  # as in trec_eval, a score too large for single precision is infinite
        scores = np.array(list(run.values()), dtype=np.float32)
    keys = list(run)
    places = [place for place, key in enumerate(keys) if key in qrels]
    ordered = np.sort(scores)
    not_above = np.searchsorted(ordered, scores[places], side="right")
    below = np.searchsorted(ordered, scores[places], side="left")
    gains = []
    for place, last, first in zip(places, not_above.tolist(), below.tolist(), strict=True):
        key, rank = keys[place], len(run) - last + 1
        if last - first > 1:
            tied = np.flatnonzero(scores == scores[place]).tolist()
            rank += sum(keys[other] > key for other in tied)
        gains.append((rank, qrels[key]))
    return Ranking(gains=tuple(sorted(gains)), returned=len(run), gold=tuple(qrels.values()))
