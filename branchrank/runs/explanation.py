"""Show the gold's rank after each stage for one question of a run, and where the gold was lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from branchrank.errors import UsageError, suggestion
from branchrank.io.printable import safe
from branchrank.records import Question, Record
from branchrank.runs.attribution import DEPTH, lost_in
from branchrank.runs.predictor_comparison import unknown_predictor
from branchrank.runs.rows import Row

if TYPE_CHECKING:
    from branchrank.runs.run import RunData


class Explanation(Record, frozen=True, kw_only=True):
    """A question of a run, with one row per predictor and repeat.

    ``str()`` returns the text that ``branchrank explain`` prints, with the first ``top`` entries of each
    stage.
    """

    question: Question
    rows: tuple[Row, ...]
    top: int

    def __str__(self) -> str:
        parts = [_question_lines(self.question), *(_row_lines(row, self.top) for row in self.rows)]
        return "\n\n".join("\n".join(map(safe, lines)) for lines in parts)


def explain(run: RunData, question_id: str, predictors: Sequence[str] = (), *, top: int = 3) -> Explanation:
    """Explain one question from a run.

    Raises :class:`UsageError` for an unknown question or predictor.
    """
    scores = run.scores
    question = scores.questions.get(question_id)
    if question is None:
        raise UsageError(
            f"{run.directory} has no question {question_id!r}",
            remedy=suggestion(question_id, scores.questions)
            or f"choose one of its questions, such as {next(iter(scores.questions))}",
        )
    for name in predictors:
        if name not in run.predictors:
            raise unknown_predictor(str(run.directory), name, run.predictors)
    return Explanation(
        question=question,
        rows=tuple(row for name in predictors or run.predictors for row in scores.rows_of(name, question_id)),
        top=top,
    )


def _question_lines(question: Question) -> Iterator[str]:
    yield f"{question.id}: {question.question}"
    for item in question.gold:
        lines = f":{item.answer_line_start}-{item.answer_line_end}" if item.span is not None else ""
        yield f"gold: {item.source_file}{lines}"
    if not question.answerable:
        yield "gold: none, the corpus has no answer"


def _row_lines(row: Row, top: int) -> Iterator[str]:
    repeat = f", repeat {row.repeat}" if row.repeat else ""
    yield f"{row.predictor}{repeat}: {_outcome(row)}"
    entries = {stage.stage: stage for stage in row.trace}
    for stage in row.stages:
        rank = row.gold_ranks.get(stage)
        yield f"  {stage}: {'gold absent' if rank is None else f'gold at rank {rank}'}"
        if stage in entries:
            listed = zip(entries[stage].keys[:top], entries[stage].scores, strict=False)
            for place, (key, score) in enumerate(listed, start=1):
                mark = "  <- gold" if rank == place else ""
                yield f"    {place}. {key}  {score:.4g}{mark}"
    yield "  hits:"
    for place, hit in enumerate(row.hits[:DEPTH], start=1):
        mark = "  <- gold" if hit.gold is not None else "  (its page)" if hit.page is not None else ""
        yield f"    {place}. {hit.source}:{hit.line_start}-{hit.line_end}  {hit.score:.4g}{mark}"
    for fallback in row.fallbacks:
        yield f"  fallback: {fallback}"


def _outcome(row: Row) -> str:
    if row.status == "failed":
        return f"failed: {row.error}"
    rank = next((place for place, hit in enumerate(row.hits, start=1) if hit.gold is not None), None)
    if rank is not None and rank <= DEPTH:
        return f"gold at rank {rank}"
    where = f"gold at rank {rank}, below the first {DEPTH}" if rank else "gold not among the hits"
    return f"{where}; lost at {lost_in(row)}" if row.lost else where
