"""Run some questions of a run again, and compare the answers and the indexes with the recorded ones.

1. The questions are drawn with a seed of the verifier, because whoever knows the draw could alter only other
   questions. Half of them are drawn from the questions on which the scores of the run's two best systems
   differ, because these questions decide which system the run recommends.
2. The facts about each index in ``run.json`` must be those of the index that answers the questions.

A score or distance can differ by up to 0.0001 or 0.01%, whichever is larger, because processors compute
slightly different scores. Times and error messages are not compared. Everything else in a new answer must be
the same as in the recorded answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from math import comb, isclose
from typing import Any

import msgspec
from msgspec.structs import replace

from branchrank.core.errors import LLMError
from branchrank.core.io.progress import Notify, Progress
from branchrank.core.records import NO_LLM, NOT_REPORTED, Record
from branchrank.questions.question_files import draw
from branchrank.reports.verify.derived import Finding, row_finding, some
from branchrank.runs.attribution import lost_in
from branchrank.runs.bench.answering import answer
from branchrank.runs.bench.opening import OpenPlan
from branchrank.runs.bench.record import index_facts
from branchrank.runs.bench.resume import OpenRerun, RunAccess, open_rerun
from branchrank.runs.directory import RUN_JSON
from branchrank.runs.rows import Row
from branchrank.runs.run_data import RunData

_TOLERANCE = 1e-4
#: The facts of an index that older runs lack.
_NEWER = ("documents", "chunk_tokens", "chunks_digest", "scripts", "languages", "identity")
#: The number of altered questions for which the chance of finding at least one of them is stated.
ALTERED = 5


class Rerun(Record, frozen=True, kw_only=True):
    """The result of running some questions again.

    ``questions`` is the number of questions that were run again, and ``rows`` is the number of rows that were
    compared with new answers. ``identical`` is the number of new answers that are the same as the recorded
    answers. ``left_out`` contains the reason for each predictor that was not run again.

    ``seed`` is the seed of the draw. ``systems`` are the leading system and its closest rival. ``differing``
    contains two counts for the questions on which their scores differ: drawn questions and all questions.
    ``others`` contains these counts for all other questions.
    """

    questions: int
    rows: int
    identical: int
    left_out: Mapping[str, str]
    seed: int
    systems: tuple[str, ...]
    differing: tuple[int, int]
    others: tuple[int, int]

    def __str__(self) -> str:
        lines = [f"rerun: {self.identical} of {self.rows} answers to {self.questions} questions are the same"]
        lines += [f"not rerun: {name}: {reason}" for name, reason in self.left_out.items()]
        (drawn, differ), (more, rest) = self.differing, self.others
        groups = f"{more} of {rest} questions"
        if self.systems:
            pair = " and ".join(self.systems)
            groups = f"{drawn} of {differ} questions on which {pair} differ, and {more} of {rest} others"
        lines.append(f"drawn with --seed {self.seed}: {groups}")
        least = min(chance_found(self.differing, self.others, ALTERED))
        words = f"a draw of {drawn + more} of {differ + rest} finds one of {ALTERED} altered questions "
        words += f"in at least {int(100 * least)} of 100 cases"
        if differ >= ALTERED:
            among = chance_found(self.differing, (0, 0), ALTERED)[0]
            words += f" ({int(100 * among)} of 100 if all {ALTERED} are among the {differ})"
        words += ", if systems that were run again gave the altered answers" if self.left_out else ""
        return "\n".join([*lines, words])


def chance_found(differing: tuple[int, int], others: tuple[int, int], altered: int) -> list[float]:
    """Return the chances (0 to 1) that a draw contains an altered question, for each split of them.

    Each group is a pair (drawn, all). A split puts some of the ``altered`` questions into the first group,
    and the rest into the second. The chances follow from the hypergeometric distribution.

    >>> [round(chance, 3) for chance in chance_found((0, 0), (20, 161), 5)]
    [0.488]
    """
    (drawn, first), (more, second) = differing, others
    altered = min(altered, first + second)
    return [
        1
        - comb(first - own, drawn)
        * comb(second - altered + own, more)
        / (comb(first, drawn) * comb(second, more))
        for own in range(max(0, altered - second), min(altered, first) + 1)
    ]


def ask_again(
    run: RunData, count: int, seed: int | None, access: RunAccess, progress: Progress, notify: Notify
) -> tuple[Rerun, list[Finding]]:
    """Run ``count`` questions again, and compare the answers with the recorded rows.

    Without a ``seed``, the draw is different each time. Raises the same errors as
    :func:`~branchrank.runs.bench.resume.open_rerun`.
    """
    seed = secrets.randbits(32) if seed is None else seed
    systems = _headline(run)
    values = [run.scores.per_question(name, run.primary) for name in systems]
    groups: tuple[list[str], list[str]] = ([], [])
    for question in run.asked:
        groups[len({scores.get(question.id) for scores in values}) < 2].append(question.id)
    differing, others = (sorted(group, key=lambda key: draw(seed, key)) for group in groups)
    size = min(count, len(run.asked))
    half = min(len(differing), max(size - size // 2, size - len(others)))
    ids = {*differing[:half], *others[: size - half]}
    with open_rerun(run.directory, run.record, ids, access, progress, notify) as rerun:
        again = _answers(run, rerun, progress)
        opened, whole = rerun.opened, not rerun.left_out
        facts = [*_labels(opened), *_indexes(run, opened, whole)] if opened else []
    counts = [sum(each.id in group for each in rerun.questions) for group in (differing, others)]
    done = Rerun(
        questions=len(rerun.questions),
        rows=len(again),
        identical=sum(not text for _, text in again),
        left_out=rerun.left_out,
        seed=seed,
        systems=systems,
        differing=(counts[0], len(differing)),
        others=(counts[1], len(others)),
    )
    file = run.record.rows_file
    return done, [*facts, *some(file, [row_finding(file, key, text) for key, text in again if text])]


def _headline(run: RunData) -> tuple[str, ...]:
    """Return the system with the best mean and its closest rival, or nothing without a comparison."""
    best = max(run.predictors, key=lambda name: run.scores.average(name, run.primary))
    pairs = [each for each in run.judgment.comparisons if best in (each.candidate, each.baseline)]
    closest = min(pairs, key=lambda each: abs(each.difference), default=None)
    return () if closest is None else (closest.candidate, closest.baseline)


def _labels(opened: OpenPlan) -> Iterator[Finding]:
    """Yield a finding for each class that names an LLM although the run says that it uses none."""
    for predictor in opened.predictors:
        label = getattr(getattr(predictor, "wrapped", None), "llm", NOT_REPORTED)
        if predictor.llm == NO_LLM and label not in (NO_LLM, NOT_REPORTED):
            message = f"rerun: its LLM is {NO_LLM}, but the class names {label}"
            yield Finding(file=RUN_JSON, place=f"predictor {predictor.name!r}", message=message)


def _indexes(run: RunData, opened: OpenPlan, is_whole: bool) -> Iterator[Finding]:
    """Compare the record of each index and of the corpus with the index that was opened.

    Two builds of an index differ in generation, build time and size. The recall depends on the systems and on
    the text of all questions, so it is compared only if all systems are run again and the run has this text.
    """
    record = run.record
    kept = ["generation", "build_seconds", "bytes"]
    is_whole = is_whole and run.settings.question_text == "keep"
    kept += [] if is_whole else ["recall", "recall_depth"]
    for then in record.indexes:
        index = opened.indexes.get(then.name)
        if index is None:
            continue
        newer = [name for name in _NEWER if not getattr(then, name)]
        facts = index_facts(then.name, index)
        facts = opened.measured(facts) if is_whole else facts
        now = replace(facts, **{name: getattr(then, name) for name in (*kept, *newer)})
        corpus = (index.manifest.corpus_digest, index.manifest.exclude)
        recorded = {"corpus": (record.corpus_digest, record.corpus_exclude), then.name: then}
        found = {"corpus": corpus, then.name: now}
        if text := _difference(msgspec.to_builtins(recorded), msgspec.to_builtins(found)):
            yield Finding(file=RUN_JSON, place="indexes", message=text)


def _answers(run: RunData, rerun: OpenRerun, progress: Progress) -> list[tuple[tuple[str, str, int], str]]:
    """Return each compared row's key and the first difference in the new answer ("" if there is none)."""
    rows = {row.key: row for row in run.rows}
    wanted = [
        (question, each, predictor, repeat)
        for question in rerun.questions
        if rerun.opened is not None
        for each, predictor in zip(rerun.opened.records, rerun.opened.predictors, strict=True)
        for repeat in range(each.repeats)
    ]
    found = []
    for done, (question, each, predictor, repeat) in enumerate(wanted):
        progress("questions", done, len(wanted))
        kept = rows.get((question.id, predictor.name, repeat))
        if kept is None:
            continue
        try:
            asked = (predictor, question, run.record.top_k, repeat, run.settings.trace_depth)
            row = answer(*asked, places=rerun.opened.places if rerun.opened else None)
            built_in = each.system is not None
            text = _difference(_comparable(kept, built_in), _comparable(row, built_in))
        except LLMError as error:
            text = f"rerun: {error.message}"
        found.append((kept.key, text))
    progress("questions", len(wanted), len(wanted))
    return found


def _comparable(row: Row, with_ids: bool) -> dict[str, Any]:
    """Return the parts of a row that a rerun must repeat, as JSON values.

    Without ``with_ids``, the ids of hits are left out, because other packages can make them anew in each
    process. The numbers of lines without content are compared with the corpus. Rows of older versions have
    one gold item per hit.
    """
    calls = [(call.stage, call.outcome, call.prompt_tokens, call.completion_tokens) for call in row.calls]
    unset: dict[str, Any] = {"blank_lines": None, "also_gold": msgspec.UNSET}
    hits = tuple(replace(hit, id=hit.id if with_ids else "", **unset) for hit in row.hits)
    return {
        **msgspec.to_builtins(replace(row, error="", calls=(), hits=hits, lost=lost_in(row))),
        "calls": calls,
    }


def _difference(then: Any, now: Any, place: str = "") -> str:
    """Describe the first difference between two JSON values ("" if there is none), and where it is."""
    if isinstance(then, float) and isinstance(now, float):
        if isclose(then, now, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            return ""
    elif isinstance(then, dict) and isinstance(now, dict) and then.keys() == now.keys():
        found = (_difference(then[key], now[key], f"{place} {key}") for key in then)
        return next(filter(None, found), "")
    elif isinstance(then, (list, tuple)) and isinstance(now, (list, tuple)):
        pairs = enumerate(zip_longest(then, now), start=1)
        found = (_difference(old, new, f"{place} {number}") for number, (old, new) in pairs)
        return next(filter(None, found), "")
    elif then == now:
        return ""
    return f"rerun:{place} is {now!r}, was {then!r}"
