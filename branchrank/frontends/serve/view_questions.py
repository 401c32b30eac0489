"""The questions of one run, or of two runs side by side, for the local page.

1. The list of questions is made from ``questions.jsonl``, ``gold.jsonl`` and ``questions.csv``. The list is
   filtered here, and the page gets only the questions that it shows.
2. The rows of a question are decoded when the question is opened. Its data have the form that the report's
   question browser uses (:mod:`branchrank.reports.browser`).
3. Document text is read from the workspace if its documents are those of the run. Otherwise it is taken from
   the run's ``report.html``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from io import StringIO
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from branchrank.core.errors import RunError, UsageError
from branchrank.core.io.files import NOT_JSON, read_beneath
from branchrank.core.io.printable import safe
from branchrank.core.io.table import text_of
from branchrank.core.io.text_files import read_jsonl
from branchrank.core.records import Question, Record
from branchrank.frontends.serve.view_documents import Documents, paged
from branchrank.frontends.serve.view_runs import ComparedRuns, RunList, compared, stamps
from branchrank.questions.question_files import hashed, load_questions
from branchrank.reports.browser import OUTCOMES, Passages, browser_data, gather_passages
from branchrank.reports.writing import kept_passages
from branchrank.runs import directory as names
from branchrank.runs.directory import check_files, read_run
from branchrank.runs.rows import Row, read_lines
from branchrank.runs.run_data import RunData
from branchrank.runs.slices import GoldFacts, slices

#: The number of runs whose questions stay in memory.
KEPT_RUNS = 4
#: A ``report.html`` larger than this is not searched for document text.
MOST_REPORT_BYTES = 64 << 20


class ShownAnswer(NamedTuple):
    """The outcome of one row: an index into ``OUTCOMES``, and the stage that lost the gold."""

    predictor: str
    repeat: int
    outcome: int
    lost: str


class Filters(Record, frozen=True, kw_only=True):
    """Which questions to list. An empty value selects everything.

    ``outcome`` is one of ``OUTCOMES`` or ``disagree``. ``change`` is ``better``, ``worse`` or ``any``, and
    compares the primary measure in the first run with that in the second run, in which ``other`` is the
    system that ``predictor`` is compared with, by default the same. ``slices`` maps the label of a
    slice to a value.
    """

    predictor: str = ""
    outcome: str = ""
    lost: str = ""
    change: str = ""
    other: str = ""
    words: str = ""
    slices: dict[str, str] = msgspec.field(default_factory=dict)


class _Key(Record, frozen=True):
    question_id: str


class RunQuestions:
    """The questions of one run with the outcome of each answer. Rows are read when they are needed.

    Raises :class:`RunError` if the run is not finished, or if a file is missing or damaged.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.record = read_run(directory)
        check_files(directory)
        if self.record.status != "finished":
            raise RunError(f"{directory} is not finished", remedy=f"branchrank resume {directory}")
        asked = {question.id: question for question in load_questions(directory / names.QUESTIONS)}
        if missing := [key for key in self.record.question_ids if key not in asked]:
            raise RunError(f"{directory / names.QUESTIONS} does not have the question {missing[0]!r}")
        self.asked = {key: asked[key] for key in self.record.question_ids}
        path = directory / names.GOLD
        facts = read_jsonl(path, GoldFacts, error=RunError) if path.exists() else ()
        self.cuts = slices(list(self.asked.values()), {each.question_id: each for each in facts})
        self.answers: dict[str, list[ShownAnswer]] = {}
        for question_id, answer in self._listed():
            self.answers.setdefault(question_id, []).append(answer)

    def _listed(self) -> Iterator[tuple[str, ShownAnswer]]:
        path = self.directory / names.QUESTIONS_CSV
        try:
            text = read_beneath(self.directory, names.QUESTIONS_CSV, names.MOST_BYTES).decode("utf-8-sig")
            for line in csv.DictReader(StringIO(text)):
                given = (text_of(line["predictor"]), int(line["repeat"]), OUTCOMES.index(line["outcome"]))
                yield text_of(line["question_id"]), ShownAnswer(*given, safe(text_of(line["lost"])))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
            raise RunError(f"{path}: {error}", remedy=f"branchrank report {self.directory}") from None

    def asks(self, question: Question) -> bool:
        """Return whether the run asked this question, with the same text or its digest."""
        asked = self.asked.get(question.id)
        own = question.question
        return asked is not None and (asked.question == own or asked.question == hashed(question).question)

    @cached_property
    def _rows(self) -> Mapping[str, list[bytes]]:
        """The lines of the rows file by question."""
        decoder, path = msgspec.json.Decoder(_Key), self.directory / self.record.rows_file
        found: dict[str, list[bytes]] = {}
        try:
            for line in read_lines(path):
                found.setdefault(decoder.decode(line).question_id, []).append(line)
        except (OSError, *NOT_JSON) as error:
            raise RunError(f"{path}: {error}", remedy="restore the file") from None
        return found

    def run_of(self, question_id: str) -> RunData:
        """Return the run restricted to one question. Raises :class:`UsageError` for an unknown question."""
        question = self.asked.get(question_id)
        if question is None:
            raise UsageError(f"{self.directory} has no question {question_id!r}")
        try:
            rows = tuple(msgspec.json.decode(line, type=Row) for line in self._rows.get(question_id, ()))
        except NOT_JSON as error:
            raise RunError(f"{self.directory / self.record.rows_file}: {error}") from None
        return RunData(directory=self.directory, record=self.record, rows=rows, asked=(question,))

    @cached_property
    def kept(self) -> Passages:
        """The document text in the run's ``report.html``."""
        with suppress(OSError, UnicodeDecodeError):
            if (self.directory / names.REPORT_HTML).stat().st_size <= MOST_REPORT_BYTES:
                page = read_beneath(self.directory, names.REPORT_HTML, names.MOST_BYTES).decode()
                return kept_passages(page) or {}
        return {}


class QuestionLists:
    """The questions of the runs in a list. The runs that were used last stay in memory."""

    def __init__(self, runs: RunList, documents: Documents) -> None:
        self._runs, self._documents = runs, documents
        self._lock = Lock()
        self._kept: dict[Path, tuple[object, RunQuestions]] = {}

    def of(self, key: str) -> RunQuestions:
        """Return a run's questions, read again if its files have changed."""
        directory = self._runs.directory(key)
        with self._lock:
            found = (names.RUN_JSON, names.QUESTIONS, names.QUESTIONS_CSV, names.ROWS, names.COMPACT_ROWS)
            stamp = stamps(directory, found)
            before = self._kept.pop(directory, None)
            if before is None or before[0] != stamp:
                before = (stamp, RunQuestions(directory))
            self._kept[directory] = before
            if len(self._kept) > KEPT_RUNS:
                del self._kept[next(iter(self._kept))]
            return before[1]

    def newest(self, questions: Mapping[str, Question]) -> str:
        """Return the key of the newest finished run that asked one of the workspace's questions, or "".

        ``questions`` are these questions by id. The run must also have read the workspace's documents.
        """
        for key in (run.key for run in self._runs.summaries() if run.status == "finished"):
            with suppress(RunError):
                record = read_run(self._runs.directory(key))
                asked = [questions[each] for each in record.question_ids if each in questions]
                if asked and self._documents.root_of(record) and any(map(self.of(key).asks, asked)):
                    return key
        return ""

    def listed(self, keys: Sequence[str], filters: Filters, page: int) -> dict[str, object]:
        """Return one page of the questions of the first run, with their answers in all of the runs."""
        runs = [self.of(key) for key in keys]
        predictors = dict.fromkeys(safe(each.name) for run in runs for each in run.record.predictors)
        changed = self._changed(keys, filters) if filters.change else runs[0].asked.keys()
        found = [
            question
            for question in runs[0].asked.values()
            if question.id in changed and _matches(question, runs, filters)
        ]
        return {
            "experiments": [safe(run.record.experiment) for run in runs],
            "predictors": list(predictors),
            "outcomes": OUTCOMES,
            "stages": sorted(
                {each.lost for run in runs for answers in run.answers.values() for each in answers} - {""}
            ),
            "slices": [[safe(label), list(map(safe, values))] for label, values in runs[0].cuts.items()],
            "total": len(runs[0].asked),
            "tally": _tally(runs, found) if len(found) < len(runs[0].asked) else [],
            **paged(found, page, lambda each: [run.answers.get(each.id, ()) for run in runs]),
        }

    def _changed(self, keys: Sequence[str], filters: Filters) -> set[str]:
        """Return the questions that a system won or lost against the second run, as side by side.

        Raises :class:`RunError` if the two runs can't be compared.
        """
        found, pair = ComparedRuns(), (filters.predictor, filters.other) if filters.other else ("", "")
        if len(keys) > 1:
            found = compared(self._runs.directory(keys[0]), self._runs.directory(keys[1]), *pair)
        if found.problem:
            raise RunError(found.problem)
        systems = [each for each in found.systems if filters.predictor in ("", each.system)]
        won = {key for each in systems for key in each.won}
        lost = {key for each in systems for key in each.lost}
        return {"better": won, "worse": lost}.get(filters.change, won | lost)

    def opened(self, keys: Sequence[str], question_id: str) -> list[dict[str, Any]]:
        """Return the gold, the answers and the document text of one question in each run that has it."""
        found = []
        for key in keys:
            questions = self.of(key)
            if keys[0] != key and question_id not in questions.asked:
                continue
            run = questions.run_of(question_id)
            root = self._documents.root_of(run.record)
            if root is None:
                sources = {hit.source for row in run.rows for hit in row.hits}
                sources |= {item.source_file for each in run.asked for item in each.gold}
                passages = {name: text for name, text in questions.kept.items() if name in sources}
            else:
                passages = gather_passages(run, root)
            about, [question] = browser_data(run, with_quotes=True)
            found.append(
                {
                    "run": about,
                    "question": question,
                    "passages": passages,
                    "documents": root is not None,
                    "experiment": safe(run.record.experiment),
                    "created": safe(run.record.created),
                }
            )
        return found


def _matches(question: Question, runs: Sequence[RunQuestions], filters: Filters) -> bool:
    """Return whether a question passes the filters in any of the runs."""
    searched = f"{question.id} {question.question}".lower()
    if not all(word in searched for word in filters.words.lower().split()):
        return False
    for label, value in filters.slices.items():
        if question.id not in runs[0].cuts.get(label, {}).get(value, ()):
            return False
    answers = [answer for run in runs for answer in run.answers.get(question.id, ())]
    if filters.outcome == "disagree" and len({answer.outcome == 0 for answer in answers}) < 2:
        return False
    wanted = OUTCOMES.index(filters.outcome) if filters.outcome in OUTCOMES else None
    return any(
        filters.predictor in ("", answer.predictor)
        and filters.lost in ("", answer.lost)
        and wanted in (None, answer.outcome)
        for answer in answers
    )


def _tally(runs: Sequence[RunQuestions], found: Sequence[Question]) -> list[list[object]]:
    """Return the outcomes of each predictor over the listed questions that have an answer.

    Each entry consists of the run's number, the predictor, the number of answers, and the number of answers
    with each of the first three outcomes or a better one.
    """
    lines: list[list[object]] = []
    for number, run in enumerate(runs):
        counts: dict[str, list[int]] = {}
        for question in found:
            for answer in run.answers.get(question.id, ()) if question.is_scored else ():
                count = counts.setdefault(answer.predictor, [0] * 4)
                count[0] += 1
                for best in range(3):
                    count[best + 1] += answer.outcome <= best
        lines += [[number, safe(name), *count] for name, count in counts.items()]
    return lines
