"""A run's summary, which has one row per predictor with scores, sizes, times and costs.

:class:`SummaryRow` is the table of its columns. Each column is one entry, with what it is computed from, its
heading and the tables that show it. ``summary.csv`` has every column, in the order of the entries. The
passage size is beside every strict hit rate, because returning whole files inflates the strict hit rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import msgspec

from branchrank.core.io.table import Table, table_of
from branchrank.core.records import (
    AGENT_STAGE,
    ANSWER,
    NO_LLM,
    NOT_REPORTED,
    SHOWN,
    UNPLACED,
    AgentLog,
    Record,
    Span,
)
from branchrank.runs.scores import STANDARD, Estimate, Scores
from branchrank.runs.timings import COMPUTE, CPU, LLM_WAIT, TOTAL, Percentile, Timing, Warm
from branchrank.runs.words import milliseconds, number, percent
from branchrank.scoring.matching import Judged, has_lines, is_file_level, resolve_source
from branchrank.scoring.measures import NamedMeasure, mean

#: The number of top hits per question for which passage sizes are computed.
PASSAGE_DEPTH = 5
#: The measures whose rates are among the first columns, and those whose rates follow.
FIRST_RATES, MORE_RATES = STANDARD[:4], STANDARD[4:]

T = TypeVar("T")
#: The tables of the summary: ``summary.csv``, and the first table of the terminal and of the report.
Place = Literal["csv", "terminal", "report"]
_whole, _spent = partial(number, digits=0), partial(number, missing=NOT_REPORTED)


class PassageSize(Record, frozen=True, kw_only=True):
    """The number of lines in the hits for one question, and how many of these lines are gold.

    ``lines`` is the sum of the hits' lengths in lines, so a line in two hits counts twice. The other values
    count only lines with content. ``gold_lines`` counts the distinct gold lines that the hits contain.
    ``span_precision`` is ``gold_lines`` divided by the number of returned lines, or 0 without hits.
    ``gold_coverage`` is the largest share of a gold item's lines that the hits contain, because one gold item
    is enough to answer the question. ``span_precision`` and ``gold_coverage`` are ``None`` for file-level
    gold and for unanswerable questions. ``repeated_pages`` counts the hits that are on the same page as a
    higher-ranked hit.
    """

    hits: int
    repeated_pages: int
    lines: int
    gold_lines: int
    span_precision: float | None
    gold_coverage: float | None


def passage_size(judged: Judged) -> PassageSize:
    """Count the lines and gold lines in the hits for one question.

    Hits without a place in the corpus are ignored.
    """
    question = judged.question
    kept = [hit for hit in judged.hits if hit.source != UNPLACED]
    lines = sum(hit.span.lines for hit in kept)
    returned = disjoint(map(judged.resolved, kept))
    gold = [item.span for item in question.gold if not is_file_level(item, question) and item.span]
    gold_lines = sum(judged.gold_lines(span, returned) for span in disjoint(gold))
    # Gold that has only blank lines counts, although the lines of the hits don't.
    counted = max(gold_lines, lines - sum(hit.blank_lines or 0 for hit in kept))
    return PassageSize(
        hits=len(kept),
        repeated_pages=len(kept) - len({resolve_source(hit.source, question) for hit in kept}),
        lines=lines,
        gold_lines=gold_lines,
        span_precision=(gold_lines / counted if counted else 0.0) if gold else None,
        gold_coverage=max(
            (judged.gold_lines(span, returned) / judged.gold_lines(span, [span]) for span in gold),
            default=None,
        ),
    )


def disjoint(spans: Iterable[Span]) -> list[Span]:
    """Merge overlapping spans into disjoint spans that cover the same lines."""
    found: list[Span] = []
    for span in sorted(spans):
        last = found[-1] if found else None
        if last and last.source == span.source and span.line_start <= last.line_end:
            end = max(last.line_end, span.line_end)
            found[-1] = msgspec.structs.replace(last, line_end=end)
        else:
            found.append(span)
    return found


class Measured:
    """What was measured about one predictor, from which the columns of its summary are computed."""

    def __init__(
        self, name: str, scores: Scores, timings: Sequence[Timing], measures: dict[str, NamedMeasure]
    ) -> None:
        self.name, self.scores, self.measures = name, scores, measures
        self.rows = scores.rows(name)
        self.calls = [call for row in self.rows for call in row.calls]
        models = ", ".join(sorted({call.model for call in self.calls if call.model}))
        declared = self.rows[0].llm
        #: The models that were called, or else the declared LLM.
        self.model = models if models and declared in (NO_LLM, NOT_REPORTED) else declared
        self.warm = Warm(timings, name)
        #: The percentiles of the latency, or ``None`` if it was not measured.
        self.p50, self.p95 = self.warm.percentile(TOTAL, 0.5), self.warm.percentile(TOTAL, 0.95)

    @property
    def uses_llm(self) -> bool:
        """Whether the predictor called an LLM, or may have called one."""
        return bool(self.calls) or self.model != NO_LLM

    def per_query(self, total: int) -> float | None:
        """Return a number per query, or ``None`` if the predictor may use an LLM and reported no call."""
        return total / len(self.rows) if self.calls or not self.uses_llm else None

    def total(self, field: str) -> int:
        """Return the sum of a count of the rows, which omit it if it is 0."""
        return sum(getattr(row, field) or 0 for row in self.rows)

    def per_hit(self, total: int) -> float | None:
        """Return a number per hit that has a place in the corpus, or ``None`` without hits."""
        hits = sum(size.hits for size in self.sizes)
        return total / hits if hits else None

    @cached_property
    def agents(self) -> list[AgentLog]:
        """What an agent did for each question, if the predictor is an agent."""
        return [row.agent for row in self.rows if row.agent]

    def per_agent(self, count: Callable[[AgentLog], int]) -> float | None:
        """Return a mean over the questions that an agent answered, or ``None`` if none did."""
        return _mean(map(count, self.agents))

    @property
    def steps_per_query(self) -> float | None:
        """The mean number of an agent's turns, or of those with a tool call if LLM calls name no turn."""
        begin, _, _ = AGENT_STAGE.partition("{}")
        named = [{call.stage for call in row.calls if call.stage.startswith(begin)} for row in self.rows]
        calling = [{step.turn for step in log.steps} for log in self.agents]
        return _mean(map(len, named if any(named) else calling)) if self.agents else None

    @property
    def seen(self) -> float | None:
        """The share of the questions with gold of which a tool showed a gold line, for an agent."""
        rows = self.scores.answerable_rows(self.name)
        return _mean(SHOWN in row.gold_ranks for row in rows) if self.agents else None

    @cached_property
    def answers(self) -> list[Judged]:
        """The first five hits of each answer to a question that has gold."""
        return [self.scores.judged(row, PASSAGE_DEPTH) for row in self.scores.answerable_rows(self.name)]

    @cached_property
    def sizes(self) -> list[PassageSize]:
        """The sizes of the passages of each of these answers."""
        return list(map(passage_size, self.answers))

    @cached_property
    def estimates(self) -> dict[str, Estimate | None]:
        """Every standard measure, then the measures requested by name, each with its 95% interval."""
        return {
            key: self.scores.estimate(self.name, self.measures[key])
            if key in self.measures and self.scores.answerable
            else None
            for key in dict.fromkeys((*STANDARD, *self.measures))
        }

    @cached_property
    def rates(self) -> dict[str, float | None]:
        """The mean of each measure over the questions that have gold, without its interval."""
        return {name: None if found is None else found.value for name, found in self.estimates.items()}


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not ``None``, or ``None`` if there are none."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _ms(found: Percentile | None, end: Literal["value_ms", "low_ms", "high_ms"] = "value_ms") -> float | None:
    return None if found is None else getattr(found, end)


class Column(cached_property[T]):
    """A column of the summary: how its value is computed, and how tables show it.

    ``heading`` is its heading in reports, and ``short`` the one in the terminal, by default the same on two
    lines. ``cell`` formats a value. ``shown`` lists the tables that show the column by default, besides
    ``summary.csv``; a table about a subject names its columns. The report shows the column only if ``when``
    holds for some predictor, by default if it has a value. A count has a ``meaning``, which the report
    prints, and every table leaves it out if it is 0 for all predictors.
    """

    def __init__(
        self,
        compute: Callable[[Measured], T],
        heading: str = "",
        cell: Callable[[T], str] = str,
        *,
        short: str = "",
        shown: str = "",
        when: Callable[[Measured], bool] | None = None,
        meaning: str = "",
    ) -> None:
        super().__init__(compute)
        self.heading, self.short, self.meaning = heading, short or heading.replace(" ", "\n", 1), meaning
        self.cell, self.shown, self.when = cell, shown, when or (lambda of: compute(of) is not None)

    def text(self, row: SummaryRow) -> str:
        """Return the cell of a printed table."""
        return self.cell(self.__get__(row))

    def cells(self, row: SummaryRow) -> dict[str, object]:
        """Return the cell of ``summary.csv`` by its name, or those of several measures."""
        found = self.__get__(row)
        return found if isinstance(found, dict) else {str(self.attrname): found}

    def is_in(self, table: Place, rows: Sequence[SummaryRow]) -> bool:
        """Return whether a table shows the column by default."""
        if self.meaning:
            return any(map(self.__get__, rows))
        wanted = table != "report" or any(map(self.when, rows))
        return table == "csv" or (table in self.shown and wanted)


class Rates(Column[dict[str, object]]):
    """The means of several measures, each of which is a column of ``summary.csv``."""

    def __init__(self, measures: Sequence[str]) -> None:
        super().__init__(lambda of: {name: of.rates[name] for name in measures})


def _lines_shown(log: AgentLog) -> int:
    """Return the number of different lines that tools showed."""
    return sum(span.lines for span in disjoint(log.shown))


class AgentColumn(Column[float | None]):
    """A column of the table of agents, which ``summary.csv`` has too if some predictor is an agent."""

    def is_in(self, table: Place, rows: Sequence[SummaryRow]) -> bool:
        """Return whether a table shows the column by default."""
        return table == "csv" and any(row.agents for row in rows)


class SummaryRow(Measured):
    """One predictor's row in ``summary.csv``, with scores in 0..1 and ``None`` for missing values."""

    # fmt: off
    predictor = Column(lambda of: of.name)
    llm = Column(lambda of: of.model)
    #: All questions. The rates are over the ``answerable_questions``, which have gold.
    questions = Column(lambda of: len({row.question_id for row in of.rows}))
    first_rates = Rates(FIRST_RATES)
    lines_per_hit = Column(lambda of: of.per_hit(sum(size.lines for size in of.sizes)),
        "lines per hit", number, shown="terminal")
    latency_p50_ms = Column(lambda of: _ms(of.p50), "p50 ms", milliseconds, shown="terminal report")
    latency_p95_ms = Column(lambda of: _ms(of.p95), "p95 ms", milliseconds, shown="terminal report")
    #: LLM calls and tokens are ``None`` if the predictor uses an LLM, or may use one, and reported no call.
    llm_calls_per_query = Column(lambda of: of.per_query(len(of.calls)),
        "LLM calls", _spent, shown="terminal")
    llm_tokens_per_query = Column(
        lambda of: of.per_query(sum(call.prompt_tokens + call.completion_tokens for call in of.calls)),
        "LLM tokens per query", partial(_spent, digits=0), short="LLM\ntokens", shown="terminal report",
        when=lambda of: of.uses_llm)
    more_rates = Rates(MORE_RATES)
    llm_cached_calls_per_query = Column(
        lambda of: of.per_query(sum(call.served_by != "server" for call in of.calls)))
    llm_failed_calls_per_query = Column(
        lambda of: of.per_query(sum(call.outcome != "ok" for call in of.calls)))
    #: These two are means over the ``span_questions``, whose gold has lines.
    span_precision = Column(lambda of: _mean(size.span_precision for size in of.sizes),
        "span precision", percent)
    gold_coverage = Column(lambda of: _mean(size.gold_coverage for size in of.sizes),
        "gold coverage", percent)
    characters_per_hit = Column(
        lambda of: _mean(hit.characters for judged in of.answers for hit in judged.hits),
        "characters per hit", _whole)
    tokens_per_hit = Column(lambda of: _mean(hit.tokens for judged in of.answers for hit in judged.hits),
        "tokens per hit", _whole)
    #: The share of hits whose page already has a higher-ranked hit.
    repeated_pages = Column(lambda of: of.per_hit(sum(size.repeated_pages for size in of.sizes)),
        "repeated pages", percent)
    compute_p50_ms = Column(lambda of: _ms(of.warm.percentile(COMPUTE, 0.5)))
    llm_wait_p50_ms = Column(lambda of: _ms(of.warm.percentile(LLM_WAIT, 0.5)))
    cpu_mean_ms = Column(lambda of: of.warm.mean(CPU))
    cpu_without_embedding_mean_ms = Column(lambda of: of.warm.mean(CPU, less="embed cpu"))
    first_query_ms = Column(lambda of: of.warm.first)
    timed_queries = Column(lambda of: len(of.warm.by_stage.get(TOTAL, {})))
    failures = Column(lambda of: sum(row.status == "failed" for row in of.rows))
    fallbacks = Column(lambda of: sum(bool(row.fallbacks) for row in of.rows))
    answerable_questions = Column(lambda of: len(of.scores.answerable))
    span_questions = Column(lambda of: sum(
        any(has_lines(item, asked) for item in asked.gold) for asked in of.scores.questions.values()))
    latency_p50_low_ms = Column(lambda of: _ms(of.p50, "low_ms"))
    latency_p50_high_ms = Column(lambda of: _ms(of.p50, "high_ms"))
    latency_p95_low_ms = Column(lambda of: _ms(of.p95, "low_ms"))
    latency_p95_high_ms = Column(lambda of: _ms(of.p95, "high_ms"))
    excluded_hits = Column(lambda of: of.total("excluded"), "removed",
        meaning="hits removed because they overlap an excluded span")
    altered_hits = Column(lambda of: of.total("altered"), "altered",
        meaning="hits whose returned text was replaced, because their lines have another text")
    missing_hits = Column(lambda of: of.total("missing"), "missing",
        meaning="hits without lines whose text is not in the corpus")
    ambiguous_hits = Column(lambda of: of.total("ambiguous"), "ambiguous",
        meaning="hits without lines whose text is at several places of the corpus")
    untimed_failures = Column(lambda of: of.warm.failed, "untimed",
        meaning="failed queries, which p50 and p95 do not contain")
    different_answers = Column(lambda of: of.warm.different, "different",
        meaning="queries with other hits in the latency pass, so no times are shown")
    #: The means are ``None`` for predictors that are not agents.
    agent_steps_per_query = AgentColumn(lambda of: of.steps_per_query, "steps", number,
        meaning="turns of the LLM per question")
    tool_calls_per_query = AgentColumn(
        lambda of: of.per_agent(lambda log: sum(each.tool != ANSWER for each in log.steps)), "tool calls",
        number,
        meaning="calls of tools per question, without the one that gives the answer")
    lines_shown_per_query = AgentColumn(lambda of: of.per_agent(_lines_shown), "lines shown", _whole,
        meaning="different lines per question in the answers of the tools")
    gold_seen = AgentColumn(lambda of: of.seen, "seen", percent,
        meaning="questions with an answer of which a tool showed a gold line")
    unread_citations = AgentColumn(lambda of: sum(log.unread for log in of.agents), "unread", _whole,
        meaning="cited passages of which no tool had shown a line")
    invalid_citations = AgentColumn(lambda of: sum(log.invalid for log in of.agents), "invalid", _whole,
        meaning="citations in answers of lines that do not exist, which are not hits")
    unanswered_queries = AgentColumn(
        lambda of: sum(not log.answered for log in of.agents), "unanswered", _whole,
        meaning="queries that an agent ended without an answer, so that the passages that it was shown count")
    # fmt: on

    @property
    def reports_llm(self) -> bool:
        """Whether it is known what the predictor spends on LLMs, which may be nothing."""
        return self.llm_calls_per_query is not None


COLUMNS: tuple[Column[Any], ...] = tuple(
    entry for entry in vars(SummaryRow).values() if isinstance(entry, Column)
)


def columns_of(table: Place, rows: Sequence[SummaryRow]) -> list[Column[Any]]:
    """Return the columns that a table of these rows shows by default."""
    return [column for column in COLUMNS if column.is_in(table, rows)]


def agent_table(rows: Sequence[SummaryRow]) -> Table | None:
    """Return the table of what the agents did, or ``None`` if no predictor is an agent."""
    agents = [row for row in rows if row.agents]
    columns = [column for column in COLUMNS if isinstance(column, AgentColumn)]
    cells: dict[str, Callable[[SummaryRow], str]] = {column.heading: column.text for column in columns}
    caption = f"Agents. {'; '.join(f'{column.heading}: {column.meaning}' for column in columns)}"
    return table_of(caption, agents, {"agent": lambda row: row.predictor, **cells}) if agents else None


def summarize(
    scores: Scores, timings: Sequence[Timing], measures: Iterable[NamedMeasure]
) -> list[SummaryRow]:
    """Return one row per predictor, in the order of the run."""
    chosen = {measure.name: measure for measure in measures}
    return [SummaryRow(name, scores, timings, chosen) for name in scores.predictors]
