"""A run's summary, which has one row per predictor with scores, sizes, times and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from branchrank.core.records import NO_LLM, NOT_REPORTED, Record
from branchrank.runs.scores import STANDARD, Estimate, Scores, estimate
from branchrank.runs.timings import COMPUTE, CPU, LLM_WAIT, TOTAL, Timing, Warm
from branchrank.scoring.matching import has_lines
from branchrank.scoring.measures import NamedMeasure, mean
from branchrank.scoring.passage_size import passage_size, summarize_passages

#: The number of top hits per question for which passage sizes are computed.
PASSAGE_DEPTH = 5


#: Counts that tables show only if the count of some predictor is not 0, with their headings and meanings.
COUNTS = {
    "excluded_hits": ("removed", "hits removed because they overlap an excluded span"),
    "altered_hits": (
        "altered",
        "hits whose returned text was replaced, because their lines have another text",
    ),
    "missing_hits": ("missing", "hits without lines whose text is not in the corpus"),
    "ambiguous_hits": ("ambiguous", "hits without lines whose text is at several places of the corpus"),
    "untimed_failures": ("untimed", "failed queries, which p50 and p95 do not contain"),
}


class SummaryRow(Record, frozen=True, kw_only=True):
    """One predictor's row in ``summary.csv``, with scores in 0..1 and ``None`` for missing values.

    ``estimates`` contains every standard measure, followed by the measures that were requested by name, each
    with its interval. ``questions`` is the number of all questions. The scores are means over the
    ``answerable_questions`` questions that have gold. ``span_precision`` and ``gold_coverage`` are means over
    the ``span_questions`` questions whose gold has lines. The numbers of LLM calls and tokens are ``None`` if
    the predictor uses an LLM, or may use one, and reported no call.
    """

    predictor: str
    llm: str
    questions: int
    estimates: dict[str, Estimate | None]
    lines_per_hit: float | None
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    llm_calls_per_query: float | None
    llm_tokens_per_query: float | None
    llm_cached_calls_per_query: float | None
    llm_failed_calls_per_query: float | None
    span_precision: float | None
    gold_coverage: float | None
    characters_per_hit: float | None
    tokens_per_hit: float | None
    repeated_pages: float | None
    compute_p50_ms: float | None
    llm_wait_p50_ms: float | None
    cpu_mean_ms: float | None
    cpu_without_embedding_mean_ms: float | None
    first_query_ms: float | None
    timed_queries: int
    failures: int
    fallbacks: int
    answerable_questions: int
    span_questions: int
    latency_p50_low_ms: float | None = None
    latency_p50_high_ms: float | None = None
    latency_p95_low_ms: float | None = None
    latency_p95_high_ms: float | None = None
    excluded_hits: int = 0
    altered_hits: int = 0
    missing_hits: int = 0
    ambiguous_hits: int = 0
    untimed_failures: int = 0

    @property
    def reports_llm(self) -> bool:
        """Whether it is known what the predictor spends on LLMs, which may be nothing."""
        return self.llm_calls_per_query is not None

    @property
    def rates(self) -> dict[str, float | None]:
        """The mean of each measure, without its confidence interval."""
        return {name: None if each is None else each.value for name, each in self.estimates.items()}


def counts_of(rows: Sequence[SummaryRow]) -> list[str]:
    """Return the names of the :data:`COUNTS` that are not 0 in all rows."""
    return [name for name in COUNTS if any(getattr(row, name) for row in rows)]


def count_columns(rows: Sequence[SummaryRow]) -> dict[str, Callable[[SummaryRow], str]]:
    """Return the columns of :func:`counts_of` by their headings."""

    def cell(name: str, row: SummaryRow) -> str:
        return str(getattr(row, name))

    return {COUNTS[name][0]: partial(cell, name) for name in counts_of(rows)}


def count_words(rows: Sequence[SummaryRow]) -> str:
    """Explain the columns of :func:`counts_of`, each after a semicolon."""
    return "".join("; {}: {}".format(*COUNTS[name]) for name in counts_of(rows))


def summarize(
    scores: Scores, timings: Sequence[Timing], measures: Iterable[NamedMeasure]
) -> list[SummaryRow]:
    """Return one row per predictor, in the order of the run."""
    chosen = {measure.name: measure for measure in measures}
    return [_summary(scores, predictor, Warm(timings, predictor), chosen) for predictor in scores.predictors]


def _summary(scores: Scores, predictor: str, warm: Warm, measures: dict[str, NamedMeasure]) -> SummaryRow:
    rows = scores.rows(predictor)
    calls = [call for row in rows for call in row.calls]
    answers = [scores.judged(row, PASSAGE_DEPTH) for row in scores.answerable_rows(predictor)]
    shown = [hit for judged in answers for hit in judged.hits]
    sizes = list(map(passage_size, answers))
    tokens = [hit.tokens for hit in shown if hit.tokens is not None]
    models = ", ".join(sorted({call.model for call in calls if call.model}))
    llm = models if models and rows[0].llm in (NO_LLM, NOT_REPORTED) else rows[0].llm

    def per_query(total: int) -> float | None:
        return total / len(rows) if calls or llm == NO_LLM else None

    return SummaryRow(
        predictor=predictor,
        llm=llm,
        questions=len({row.question_id for row in rows}),
        estimates={
            name: estimate(scores.per_question(predictor, measures[name]), scores.clusters)
            if name in measures and scores.answerable
            else None
            for name in dict.fromkeys((*STANDARD, *measures))
        },
        llm_calls_per_query=per_query(len(calls)),
        llm_tokens_per_query=per_query(sum(call.prompt_tokens + call.completion_tokens for call in calls)),
        llm_cached_calls_per_query=per_query(sum(call.served_by != "server" for call in calls)),
        llm_failed_calls_per_query=per_query(sum(call.outcome != "ok" for call in calls)),
        characters_per_hit=mean([hit.characters for hit in shown]) if shown else None,
        # Older runs have no token counts.
        tokens_per_hit=mean(tokens) if tokens and len(tokens) == len(shown) else None,
        cpu_mean_ms=warm.mean(CPU),
        cpu_without_embedding_mean_ms=warm.mean(CPU, less="embed cpu"),
        first_query_ms=warm.first,
        timed_queries=len(warm.by_stage.get(TOTAL, {})),
        excluded_hits=sum(row.excluded or 0 for row in rows),
        altered_hits=sum(row.altered or 0 for row in rows),
        missing_hits=sum(row.missing or 0 for row in rows),
        ambiguous_hits=sum(row.ambiguous or 0 for row in rows),
        untimed_failures=warm.failed,
        failures=sum(row.status == "failed" for row in rows),
        fallbacks=sum(bool(row.fallbacks) for row in rows),
        answerable_questions=len(scores.answerable),
        span_questions=sum(
            any(has_lines(item, question) for item in question.gold) for question in scores.questions.values()
        ),
        **summarize_passages(sizes),
        **{
            f"latency_{name}{end}_ms": getattr(found, f"{bound}_ms", None)
            for name, found in (("p50", warm.percentile(TOTAL, 0.5)), ("p95", warm.percentile(TOTAL, 0.95)))
            for end, bound in (("", "value"), ("_low", "low"), ("_high", "high"))
        },
        **{
            f"{name}_p50_ms": getattr(warm.percentile(stage, 0.5), "value_ms", None)
            for name, stage in (("compute", COMPUTE), ("llm_wait", LLM_WAIT))
        },
    )
