"""The data and the document text for the question browser in ``report.html``.

To keep the page small, the data are lists instead of objects. The scripts in ``page`` read these
lists.
Sources, predictors, outcomes and stages are stored as indexes into the lists ``sources``, ``predictors``,
``outcomes`` and ``stages``.

- A question has an id, a text, a list of slice values, a flag for answerable questions (1 or 0), a list of
  gold items, a list of rows and what went wrong, as an index into the list ``wrong``. The slice value is an
  empty string if the slice does not contain the question. The page sorts questions by what went wrong.
- A gold item has a source, a first line, a last line and a quote, and in a question with ``needs`` the
  numbers of its groups.
- A row has a predictor, a repeat, an outcome, the stage that lost the gold, an error, a list of ranks, a list
  of hits, a list of fallbacks, the rank of the gold in words, and what would have found it.
- Each entry in the list of ranks has a stage and the gold's rank after that stage. The rank is null if the
  stage's list does not contain the gold.
- A hit has a source, a first line, a last line, a score and a judgment. The judgment is 2 if the hit contains
  gold, 1 if the hit is on a gold page, and otherwise 0.

For a run with compact rows, at most the first 100 hits in each row are included.

The document text of the hits and the gold, with two lines of context before and after, is read from the
corpus when the report is written, and only if the corpus has not changed since the run. A report without
document text shows only the files and line numbers of hits and gold.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from branchrank.core.io.printable import safe
from branchrank.core.io.table import Table
from branchrank.core.records import Question
from branchrank.documents.reading import document_lines
from branchrank.questions.question_files import HASHED
from branchrank.reports.recommendation import recommended
from branchrank.runs.attribution import lost_in
from branchrank.runs.directory import COMPACT_ROWS
from branchrank.runs.explanation import clues
from branchrank.runs.rows import Row
from branchrank.runs.run_data import RunData
from branchrank.runs.scores import Scores, outcome_of
from branchrank.runs.slices import slices
from branchrank.runs.tables import located
from branchrank.runs.words import NOTHING
from branchrank.scoring.measures import named_measure

#: The maximum number of hits per answer that are shown with their text.
SHOWN_HITS = 5
#: The number of lines shown before and after a passage.
AROUND = 2
#: The maximum number of lines that are shown for one passage.
LONGEST = 200

#: Maps each source file to its blocks of consecutive lines. A block consists of the number of its first line
#: and the text of its lines.
Passages = dict[str, list[tuple[int, list[str]]]]

OUTCOMES = ("hit", "in top 5", "same page", "miss", "failed", "unanswerable", "gold changed", "gold gone")
#: What went wrong with a question, in the order in which questions are shown.
WRONG = (
    "a query failed",
    "no system found the page",
    "no system found the passage",
    "some systems missed it",
    "found, but not first by every system",
    "first for every system",
    "not scored, because its gold changed or is gone",
    "no answer in the corpus",
)
#: The maximum number of hits per row that ``report.html`` includes for a run with compact rows.
COMPACT_HITS = 100
_MEASURES = [named_measure(name) for name in ("strict_hit@1", "strict_hit@5", "relaxed_hit@5")]


def browser_data(run: RunData, *, with_quotes: bool) -> tuple[dict[str, Any], list[list[Any]]]:
    """Return the data for the question browser.

    The dictionary describes the run. Each list describes one question. The docstring of
    :mod:`branchrank.reports.browser` explains the items of these lists.
    """
    cuts = slices(run.asked, run.facts)
    values = [{key: value for value, keys in by_value.items() for key in keys} for by_value in cuts.values()]
    # Each source and stage is stored as its index, in the order in which they occur.
    sources: dict[str, int] = {}
    stages: dict[str, int] = {}
    shown = hits_shown(run)

    def row(predictor: int, row: Row, question: Question) -> list[Any]:
        hits = [
            [
                sources.setdefault(hit.source, len(sources)),
                hit.line_start,
                hit.line_end,
                float(f"{hit.score:.4g}"),
                2 if hit.gold is not None else int(hit.page is not None),
            ]
            for hit in row.hits[:shown]
        ]
        ranks = [[stages.setdefault(stage, len(stages)), row.gold_ranks.get(stage)] for stage in row.stages]
        outcome = OUTCOMES.index(_outcome(run.scores, question, row))
        fallbacks = [safe(fallback) for fallback in row.fallbacks]
        known = [safe(str(clue)) for clue in clues(run, row)]
        return [
            *(predictor, row.repeat, outcome, lost_in(row), safe(row.error)),
            *(ranks, hits, fallbacks, rank_words(row), known),
        ]

    def listed(question: Question) -> list[Any]:
        gold = [
            [
                sources.setdefault(item.source_file, len(sources)),
                item.answer_line_start,
                item.answer_line_end,
                safe(item.answer_quote or "") if with_quotes else "",
                *([question.needed_for(number)] if question.needs else []),
            ]
            for number, item in enumerate(question.gold)
        ]
        rows = [
            row(number, each, question)
            for number, name in enumerate(run.scores.predictors)
            for each in run.scores.rows_of(name, question.id)
        ]
        cut = [safe(by_id.get(question.id, "")) for by_id in values]
        wrong = what_went_wrong([OUTCOMES[row[2]] for row in rows])
        return [safe(question.id), safe(question.question), cut, int(question.answerable), gold, rows, wrong]

    questions = list(map(listed, run.asked))
    about = {
        "predictors": list(map(safe, run.scores.predictors)),
        "outcomes": OUTCOMES,
        "wrong": WRONG,
        "sources": list(map(safe, sources)),
        "stages": list(map(safe, stages)),
        "slices": [[safe(name), list(map(safe, by_value))] for name, by_value in cuts.items()],
    }
    return about, questions


def what_went_wrong(outcomes: Sequence[str]) -> int:
    """Return what went wrong with a question, as an index into ``WRONG``, by the outcomes of its answers."""
    if "failed" in outcomes:
        return 0
    if unscored := {*outcomes} - {*OUTCOMES[:4]}:
        return 7 if "unanswerable" in unscored else 6
    best, worst = (pick(map(OUTCOMES.index, outcomes)) for pick in (min, max))
    if best > 1:
        return 1 if best > 2 else 2
    return 3 if worst > 1 else 4 if worst else 5


def rank_words(row: Row) -> str:
    """Return the rank of the first hit that contains gold, or else that of the first on a gold page."""
    if row.status == "failed":
        return "failed"
    return str(row.first_gold or (f"page {row.first_page}" if row.first_page else NOTHING))


def missed(run: RunData) -> tuple[Table, ...]:
    """Return a table of the questions that some system does not get right, for each thing that went wrong."""
    scores, names = run.scores, run.scores.predictors
    leader = recommended(run).system or names[0]
    lines: dict[int, list[tuple[str, ...]]] = {}
    for question in run.asked:
        rows = {name: scores.rows_of(name, question.id) for name in names}
        wrong = what_went_wrong([_outcome(scores, question, row) for of in rows.values() for row in of])
        own = next(iter(rows[leader]), None)
        lines.setdefault(wrong, []).append(
            (
                question.id if question.question.startswith(HASHED) else question.question,
                *(", ".join(map(rank_words, of)) for of in rows.values()),
                located(question),
                own.hits[0].span.citation if own and own.hits else NOTHING,
                "; ".join(map(str, clues(run, own) if own else ())) or NOTHING,
            )
        )
    headings = ("question", *names, "gold", f"first hit of {leader}", "what would have found it")
    return tuple(
        Table(
            caption=f"{what[:1].upper()}{what[1:]} ({len(lines[wrong])})",
            headings=headings,
            rows=tuple(lines[wrong]),
            labels=len(headings),
        )
        for wrong, what in enumerate(WRONG[:5])
        if wrong in lines
    )


def _outcome(scores: Scores, question: Question, row: Row) -> str:
    if question.is_scored:
        return outcome_of(row, {each.name: scores.value(row, each) for each in _MEASURES})
    return "failed" if row.status == "failed" else question.unscored


def hits_shown(run: RunData) -> int:
    """Return the maximum number of hits per row that the question browser shows."""
    return min(run.record.top_k, COMPACT_HITS) if run.record.rows_file == COMPACT_ROWS else run.record.top_k


def gather_passages(run: RunData, root: Path) -> Passages:
    """Return the lines that the report shows, read from the corpus in the folder ``root``."""
    wanted: dict[str, set[int]] = {}

    def want(source: str, start: int, end: int) -> None:
        last = min(end, start + LONGEST - 1)
        wanted.setdefault(source, set()).update(range(max(1, start - AROUND), last + AROUND + 1))

    for row in run.rows:
        for hit in row.hits[:SHOWN_HITS]:
            want(hit.source, hit.line_start, hit.line_end)
    for question in run.asked:
        for item in question.gold:
            if item.span is not None:
                want(item.source_file, item.span.line_start, item.span.line_end)
    passages: Passages = {}
    for source in sorted(wanted):
        try:
            lines = document_lines(root, source)
        except OSError:
            continue
        passages[source] = _runs(lines, wanted[source])
    return passages


def _runs(lines: list[str], wanted: set[int]) -> list[tuple[int, list[str]]]:
    """Return the wanted lines as blocks of consecutive lines."""
    numbers = sorted(number for number in wanted if number <= len(lines))
    blocks = [
        [number for _, number in block]
        for _, block in groupby(enumerate(numbers), key=lambda each: each[1] - each[0])
    ]
    return [(block[0], [safe(lines[number - 1]) for number in block]) for block in blocks]
