"""Explain the answers to one question: the gold's rank after every stage, and what would have found it.

What would have found the gold is known from the run alone:

1. A branch of the system, or another system, that ranks the gold higher within the first hits.
2. A larger k, or a larger candidate cap, that keeps the gold: its rank after the last stage that ranks it.
3. Words of the question that no page with gold contains, which ``gold.jsonl`` lists.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from branchrank.core.errors import UsageError, suggestion
from branchrank.core.io.printable import safe, safe_line
from branchrank.core.records import AGENT_STAGE, SHOWN, UNPLACED, Question, Record, ToolStep
from branchrank.runs.attribution import DEPTH, lost_in, lost_words
from branchrank.runs.rows import Row, RowKey
from branchrank.runs.run_data import RunData
from branchrank.runs.words import plural

#: The most branches and systems, and the most words, that the clues of one answer name.
_MOST_NAMED = 3
#: The most characters of a tool's arguments, and the most citations of its answer, that are printed.
_MOST_ARGUMENTS, _MOST_SHOWN = 200, 5
#: The largest k or cap that is worth naming.
_MOST_KEPT = 50
#: Stages before the fusion that are not the list of a branch.
_NO_BRANCH = ("mapping", "expansion", "tree step ", SHOWN)


class Clue(Record, frozen=True, kw_only=True):
    """One thing that would have found the gold. ``str()`` puts it into words.

    ``name`` is the branch or system that found the gold at ``rank``, the stage that lost the gold but would
    keep it with k (or, for ``cap``, the candidate cap) equal to ``rank``, or the word that the page lacks.
    """

    kind: Literal["found", "kept", "unsaid"]
    name: str
    rank: int = 0

    def __str__(self) -> str:
        if self.kind == "unsaid":
            return f"the page never says {self.name!r}"
        if self.kind == "found":
            return f"found by {self.name} at {self.rank}"
        return f"lost at {self.name}: {'a cap of ' if self.name == 'cap' else 'k='}{self.rank} keeps it"


def clues(run: RunData, row: Row) -> tuple[Clue, ...]:
    """Return what would have found the gold, or nothing without gold or if the first hit is gold."""
    own = row.first_gold or DEPTH + 1
    if own == 1 or not run.scores.questions[row.question_id].is_scored:
        return ()
    found = dict(_branches(row))
    for name in run.predictors:
        if name != row.predictor:
            ranks = [
                found.get(name),
                *(each.first_gold for each in run.scores.rows_of(name, row.question_id)),
            ]
            found[name] = min((rank for rank in ranks if rank), default=own)
    better = sorted((rank, name) for name, rank in found.items() if rank < own and rank <= DEPTH)
    made = [Clue(kind="found", name=name, rank=rank) for rank, name in better[:_MOST_NAMED]]
    if own > DEPTH and row.status == "ok":
        facts = run.facts.get(row.question_id)
        unsaid = (facts and facts.unsaid) or ()
        made += [*_kept(row), *(Clue(kind="unsaid", name=word) for word in unsaid[:_MOST_NAMED])]
    return tuple(made)


def _branches(row: Row) -> Iterator[tuple[str, int]]:
    """Yield each branch that found the gold, with the gold's rank."""
    if "fusion" in row.stages:
        for stage in row.stages[: row.stages.index("fusion")]:
            if stage in row.gold_ranks and not stage.startswith(_NO_BRANCH):
                yield stage.partition("(")[0], row.gold_ranks[stage]


def _kept(row: Row) -> Iterator[Clue]:
    lost, ranks = lost_in(row), row.gold_ranks
    last = next((stage for stage in reversed(row.stages) if stage != "passages"), "")
    rank = ranks.get("fusion" if lost == "cap" else last, 0)
    if lost in ("cap", "fusion", "rerank", "passage order", "citation order") and DEPTH < rank <= _MOST_KEPT:
        yield Clue(kind="kept", name=lost, rank=rank)


class Explanation(Record, frozen=True, kw_only=True):
    """A question of a run, with one row per predictor and repeat.

    ``extended`` has the number of lines to which each predictor extends its hits, if it does, and ``clues``
    what would have found the gold, by the key of the row. ``str()`` returns the text that ``branchrank
    explain`` prints, with the first ``top`` entries of each stage.
    """

    question: Question
    rows: tuple[Row, ...]
    top: int
    extended: Mapping[str, int] = {}
    clues: Mapping[RowKey, tuple[Clue, ...]] = {}

    def __str__(self) -> str:
        parts = [list(_question_lines(self.question))]
        for row in self.rows:
            parts.append(list(_row_lines(row, self.top, self.extended.get(row.predictor, 0))))
            if found := self.clues.get(row.key):
                parts[-1].append(f"  what would have found it: {'; '.join(map(str, found))}")
        return "\n\n".join("\n".join(map(safe, lines)) for lines in parts)


def short_id(run: RunData, question_id: str) -> str:
    """Return the shortest prefix of at least five characters that only this question's id has."""
    others = [key for key in run.scores.questions if key != question_id]
    for size in range(5, len(question_id)):
        if not any(key.startswith(question_id[:size]) for key in others):
            return question_id[:size]
    return question_id


def explain(run: RunData, question_id: str, predictors: Sequence[str] = (), *, top: int = 3) -> Explanation:
    """Explain one question from a run. ``question_id`` can be the start of an id that no other id has.

    Raises :class:`UsageError` for an unknown question or predictor.
    """
    scores = run.scores
    begun = [key for key in scores.questions if key.startswith(question_id)]
    if len(begun) == 1:
        question_id = begun[0]
    question = scores.questions.get(question_id)
    if question is None:
        found = f"{len(begun)} questions that start with" if begun else "no question"
        raise UsageError(
            f"{run.directory} has {found} {question_id!r}",
            remedy=(f"choose one of {', '.join(begun[:5])}" if begun else "")
            or suggestion(question_id, scores.questions)
            or f"choose one of its questions, such as {next(iter(scores.questions))}",
        )
    for name in predictors:
        run.check_predictor(name)
    names = predictors or run.predictors
    rows = tuple(row for name in names for row in scores.rows_of(name, question_id))
    return Explanation(
        question=question,
        rows=rows,
        top=top,
        clues={row.key: clues(run, row) for row in rows},
        extended={
            each.name: each.system.passages.lines
            for each in run.record.predictors
            if each.system and each.system.passages.lines
        },
    )


def _question_lines(question: Question) -> Iterator[str]:
    yield f"{question.id}: {question.question}"
    for number, item in enumerate(question.gold):
        need = question.needed_for(number)
        yield f"gold: {item.citation}{f' (need {need})' if need else ''}"
    if not question.answerable:
        yield "gold: none, the corpus has no answer"


def _row_lines(row: Row, top: int, extended: int) -> Iterator[str]:
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
    yield f"  hits, extended to {extended} lines within their sections:" if extended else "  hits:"
    for place, hit in enumerate(row.hits[:DEPTH], start=1):
        mark = "  <- gold" if hit.gold is not None else "  (its page)" if hit.page is not None else ""
        where = "no place" if hit.source == UNPLACED else hit.span.citation
        yield f"    {place}. {where}  {hit.score:.4g}{mark}"
    for count, problem in (
        (row.missing, "not in the corpus"),
        (row.ambiguous, "in the corpus at several places"),
        (row.altered, "not the text of the lines that the predictor named"),
    ):
        if count:
            yield f"  {plural(count, 'returned text')}: {problem}"
    for fallback in row.fallbacks:
        yield f"  fallback: {fallback}"
    yield from _step_lines(row)


def _step_lines(row: Row) -> Iterator[str]:
    """Yield the steps of an agent: each call of a tool, and what it showed."""
    if not row.agent:
        return
    log, rank = row.agent, row.gold_ranks.get(SHOWN, 0)
    gold = [span.citation for span in log.shown][rank - 1 : rank]
    spent = Counter[str]()
    turns = defaultdict[str, list[ToolStep]](list)
    for call in row.calls:
        spent[call.stage] += call.prompt_tokens + call.completion_tokens
        turns[call.stage] = []
    for step in log.steps:
        turns[AGENT_STAGE.format(step.turn)].append(step)
    for stage, steps in turns.items():
        yield f"  {stage.removeprefix('agent ')}{f', {spent[stage]:,} tokens' if stage in spent else ''}:"
        for step in steps:
            arguments = " ".join(step.arguments[:_MOST_ARGUMENTS].split())
            more = "..." if len(step.arguments) > _MOST_ARGUMENTS else ""
            yield safe_line(f"    {step.tool}({arguments}{more})")
            if step.error:
                yield f"      error: {' '.join(step.error.split())}"
            else:
                keys = [f"{key} <- gold" if key in gold else key for key in step.shown[:_MOST_SHOWN]]
                more = f" and {len(step.shown) - len(keys)} more" if len(step.shown) > len(keys) else ""
                cut = f"; {step.cut:,} more were cut" if step.cut else ""
                named = f"{', '.join(keys)}{more}" or "nothing found"
                yield safe_line(f"      {step.characters:,} characters{cut}: {named}")
    ended = "answered" if log.answered else "ended without an answer"
    yield f"  {ended}; {log.unread} cited unread, {log.invalid} citations of lines that do not exist"
    for group in row.unseen or ():
        yield f"  need {group}: never shown"


def _outcome(row: Row) -> str:
    if row.status == "failed":
        return f"failed: {row.error}"
    rank = row.first_gold
    if rank is not None and rank <= DEPTH:
        return f"gold at rank {rank}"
    where = f"gold at rank {rank}, below the first {DEPTH}" if rank else "gold not among the hits"
    if not row.lost:
        return where
    lost = lost_in(row)
    low = row.gold_ranks.get(lost, 0)
    return f"{where}; {lost_words(lost)}{f' (rank {low}; the first {DEPTH} count)' if low > DEPTH else ''}"
