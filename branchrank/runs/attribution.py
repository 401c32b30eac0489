"""Find the gold's rank after every stage of a query, and the stage at which the gold was lost.

1. The gold's keys are the ids of the chunks and nodes that would count as strict hits. If the gold has line
   numbers, its keys are the ids of the chunks and nodes that overlap these lines. If the gold has only a
   quote, its keys are the ids of the chunks and nodes that contain the quote. The keys of file-level gold are
   the ids of all chunks and nodes in the file.
2. The gold's rank after a stage is the best rank of any of the gold's keys in the stage's list. If a stage's
   list contains none of the gold's keys, the gold has no rank after this stage.
3. The gold was lost at the first stage in this list whose condition is true:

   - ``retrieval``: No branch found the gold.
   - ``mapping``: A chunk of the gold was found, but no node of the tree covers the chunk's lines.
   - ``cap``: The gold's rank in the fused list was too low for the gold to become a candidate.
   - ``group``: Only the best chunks of each document were kept, and the gold's chunk was dropped.
   - ``rerank``: The reranker moved the gold from the first k results to a lower rank.
   - ``fusion``: The gold was found, but ranked below the first k results.
   - ``passage``: The gold's section is in the first k results, but the passage returned from this section
     does not contain the gold.
   - ``passage order``: The passages of all candidates were sorted together, and other passages were ranked
     above the gold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain

import msgspec

from branchrank.core.errors import UsageError, suggestion
from branchrank.core.io.printable import safe
from branchrank.core.records import UNPLACED, Hit, Question, Record, StageTrace
from branchrank.index.reader import Index
from branchrank.runs.rows import Row
from branchrank.runs.run_data import RunData
from branchrank.runs.words import plural
from branchrank.scoring.matching import is_strict

#: The k of hit@k. The gold counts as found if one of the first k hits overlaps the gold.
DEPTH = 5
LOSSES = ("retrieval", "mapping", "fusion", "cap", "group", "rerank", "passage", "passage order")


def gold_keys(question: Question, index: Index, lines: Callable[[str], Sequence[str]]) -> frozenset[str]:
    """Return the ids of the chunks and nodes that overlap the question's gold in one index.

    ``lines`` returns the lines of a document, because a quote matches raw text as well as plain text.
    """
    lines = cache(lines)
    keys: set[str] = set()
    for item in question.gold:
        sources = {item.source_file, *question.source_aliases}
        chunks = ((chunk.id, chunk.span, chunk.text) for chunk in index.chunks.of_sources(sources))
        nodes = ((node.id, node.own_span, node.text) for node in index.tree.of_sources(sources))
        for key, span, plain in chain(chunks, nodes):
            if span is None:
                continue
            raw = "\n".join(lines(span.source)[span.line_start - 1 : span.line_end])
            hit = Hit(id=key, text=raw, plain=plain, score=0.0, **msgspec.structs.asdict(span))
            if is_strict(hit, item, question):
                keys.add(key)
    return frozenset(keys)


def gold_ranks(trace: Iterable[StageTrace], keys: frozenset[str]) -> dict[str, int]:
    """Return the gold's best rank (from 1) in the list of each stage that contains the gold."""
    ranks: dict[str, int] = {}
    for stage in trace:
        rank = next((rank for rank, key in enumerate(stage.keys, start=1) if key in keys), None)
        if rank is not None:
            ranks[stage.stage] = min(rank, ranks.get(stage.stage, rank))
    return ranks


def lost_at(stages: Sequence[str], ranks: dict[str, int], found: bool, depth: int = DEPTH) -> str:
    """Return the stage at which the gold was lost, or "" if the first ``depth`` hits contain the gold."""
    if found:
        return ""
    last = max((stage for stage in ("fusion", "cap", "group", "rerank") if stage in stages), key=stages.index)
    near = last in ranks and ranks[last] <= depth
    if "passage order" in ranks and (near or "rerank" not in stages):
        return "passage order" if ranks["passage order"] > depth else "passage"
    if near:
        return "passage"
    if "fusion" not in ranks:
        return "mapping" if ranks else "retrieval"
    for stage in ("cap", "group"):
        if stage in stages and stage not in ranks:
            return stage
    before = [stage for stage in ("fusion", "cap", "group") if stage in stages][-1]
    if "rerank" in stages and ranks[before] <= depth:
        return "rerank"
    return "fusion"


def lost_in(row: Row) -> str:
    """Return the stage at which a row's gold was lost.

    Older versions of BranchRank stored ``passage order`` as ``passage``.
    """
    return lost_at(row.stages, row.gold_ranks, found=False) if row.lost == "passage" else row.lost


def waterfall(rows: Sequence[Row], depth: int = DEPTH) -> list[tuple[str, float, float]]:
    """For each stage, return two shares of one predictor's rows.

    The first is the share of rows whose gold is in the stage's ranked list, and the second is the share of
    rows whose gold is in the first ``depth`` entries of the list.
    """
    count = len(rows) or 1
    return [
        (
            stage,
            sum(stage in row.gold_ranks for row in rows) / count,
            sum(row.gold_ranks.get(stage, depth + 1) <= depth for row in rows) / count,
        )
        for stage in _in_order(rows)
    ]


def _in_order(rows: Sequence[Row]) -> list[str]:
    """Merge the stage lists of all rows into one list that keeps the order of the stages in each row."""
    order: list[str] = []
    for row in rows:
        for place, stage in enumerate(row.stages):
            if stage not in order:
                following = next((each for each in row.stages[place + 1 :] if each in order), None)
                order.insert(len(order) if following is None else order.index(following), stage)
    return order


class Explanation(Record, frozen=True, kw_only=True):
    """A question of a run, with one row per predictor and repeat.

    ``extended`` has the number of lines to which each predictor extends its hits, if it does.
    ``str()`` returns the text that ``branchrank explain`` prints, with the first ``top`` entries of each
    stage.
    """

    question: Question
    rows: tuple[Row, ...]
    top: int
    extended: Mapping[str, int] = {}

    def __str__(self) -> str:
        rows = (_row_lines(row, self.top, self.extended.get(row.predictor, 0)) for row in self.rows)
        parts = [_question_lines(self.question), *rows]
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
    return Explanation(
        question=question,
        rows=tuple(row for name in predictors or run.predictors for row in scores.rows_of(name, question_id)),
        top=top,
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
        where = f"{hit.source}:{hit.line_start}-{hit.line_end}"
        yield f"    {place}. {'no place' if hit.source == UNPLACED else where}  {hit.score:.4g}{mark}"
    for count, problem in (
        (row.missing, "not in the corpus"),
        (row.ambiguous, "in the corpus at several places"),
        (row.altered, "not the text of the lines that the predictor named"),
    ):
        if count:
            yield f"  {plural(count, 'returned text')}: {problem}"
    for fallback in row.fallbacks:
        yield f"  fallback: {fallback}"


def _outcome(row: Row) -> str:
    if row.status == "failed":
        return f"failed: {row.error}"
    rank = next((place for place, hit in enumerate(row.hits, start=1) if hit.gold is not None), None)
    if rank is not None and rank <= DEPTH:
        return f"gold at rank {rank}"
    where = f"gold at rank {rank}, below the first {DEPTH}" if rank else "gold not among the hits"
    if not row.lost:
        return where
    lost = lost_in(row)
    low = row.gold_ranks.get(lost, 0)
    return f"{where}; lost at {lost}{f' (rank {low}; the first {DEPTH} count)' if low > DEPTH else ''}"
