"""Answer a sample of a finished run's questions a second time, using the plan in the run's directory.

1. Hosts, models, files and classes outside the workspace must be passed to the command
   (:mod:`branchrank.bench.resume`). A predictor whose class or endpoint is not passed to the command is
   skipped.
2. No LLM is called. If a cassette is passed to the command, LLM calls are answered from the cassette. Without
   a cassette, systems that use an LLM are skipped.
3. The questions are a random sample, drawn with the run's seed. The digests of the indexes must be equal to
   the digests in the run's record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from branchrank.bench.opening import OpenPredictor, open_plan
from branchrank.bench.plan import Plan, check_plan
from branchrank.bench.record import index_facts
from branchrank.bench.resume import Named, Names, recorded_plan
from branchrank.errors import InputError, RunError, UsageError
from branchrank.index import Index
from branchrank.io.printable import bare_url, is_url
from branchrank.io.progress import Notify, Progress
from branchrank.questions.question_files import questions_digest, sample_questions
from branchrank.records import Question
from branchrank.runs.directory import PredictorRecord, RunRecord
from branchrank.settings import BenchmarkSettings, CacheSettings, LLMSettings

_REPLAY = f"{LLMSettings.section}.replay"
#: The kinds of settings that a rerun ignores, because a rerun does not call an LLM.
_UNUSED = frozenset({"LLM endpoint", "Redis", "cassette", "price table"})


class OpenRerun(NamedTuple):
    """The open predictors, the questions, the indexes, and the reason for each skipped predictor."""

    predictors: tuple[OpenPredictor, ...]
    questions: list[Question]
    indexes: dict[str, Index]
    left_out: dict[str, str]


@contextmanager
def open_rerun(
    directory: Path, run: RunRecord, count: int, named: Named, *, progress: Progress, notify: Notify
) -> Iterator[OpenRerun]:
    """Open the plan of a finished run to answer ``count`` of its questions again.

    Raises :class:`RunError` if the indexes or the questions are not the same as in the run, or if a required
    value was not passed to the command. Raises the same errors as
    :func:`~branchrank.bench.opening.open_plan`.
    """
    cassette = named.settings.get(_REPLAY, "")
    left_out = {
        each.name: reason for each in run.predictors if (reason := _why_not(each, named, bool(cassette)))
    }
    chosen = tuple(each for each in run.predictors if each.name not in left_out)
    if not chosen:
        yield OpenRerun((), [], {}, left_out)
        return
    plan = _plan(directory, replace(run, predictors=chosen), count, named, cassette)
    try:
        asked = check_plan(plan)
    except (UsageError, InputError) as error:
        raise RunError(
            f"{directory} can't be run again: {error.message}",
            remedy=error.remedy or "pass its question file",
        ) from error
    if questions_digest(asked) != run.questions_digest:
        raise RunError(
            f"{plan.questions_file} does not contain the questions of {directory}",
            remedy="pass the question file of the run: --questions FILE",
        )
    drawn = sample_questions(asked, min(count, len(asked)), run.seed)
    with open_plan(plan, asked, progress=progress, notify=notify, status=notify, build=False) as opened:
        _check_indexes(run, opened.indexes, plan.data_dir)
        yield OpenRerun(opened.predictors, drawn, opened.indexes, left_out)


def _why_not(predictor: PredictorRecord, named: Named, has_cassette: bool) -> str:
    """Return the reason why a predictor can't be run again, or "" if it can."""
    if predictor.system is not None:
        lacks = predictor.system.asks_llm and not has_cassette
        return "it uses an LLM; pass the run's cassette with --llm-replay" if lacks else ""
    url = predictor.origin.partition(" ")[0]
    if is_url(url):
        return "" if bare_url(named.api_endpoint) == url else f"pass its endpoint: --api-endpoint {url}"
    if ":" in predictor.origin:
        is_named = predictor.origin in named.predictors
        return "" if is_named else f"pass its class: --predictor {predictor.origin}"
    return "it was an object in a Python program"


def _plan(directory: Path, run: RunRecord, count: int, named: Named, cassette: str) -> Plan:
    settings = {key: value for key, value in named.settings.items() if key != _REPLAY}
    words = Named(
        data_dir=named.data_dir,
        questions=named.questions,
        predictors=named.predictors,
        api_endpoint=named.api_endpoint,
        settings=settings,
        allowed=named.allowed,
    )
    found = Names(directory, words, ("verify", "--rerun", str(count)), _UNUSED)
    llm = {**run.settings.get(LLMSettings.section, {}), "record": "", "replay": "", "price_table": ""}
    # The setting ``baseline`` is cleared, because the run's baseline may be one of the skipped predictors.
    benchmark = {**run.settings.get(BenchmarkSettings.section, {}), "baseline": ""}
    tables = {
        **run.settings,
        LLMSettings.section: llm,
        CacheSettings.section: {"redis_url": ""},
        BenchmarkSettings.section: benchmark,
    }
    plan = recorded_plan(directory, replace(run, settings=tables), found)
    if not any(system.asks_llm for system in plan.systems):
        return plan
    replayed = msgspec.structs.replace(plan.settings.part(LLMSettings), replay=cassette)
    parts = {**plan.settings.parts, LLMSettings.section: replayed}
    return replace(plan, settings=replace(plan.settings, parts=parts))


def _check_indexes(run: RunRecord, indexes: dict[str, Index], data_dir: Path) -> None:
    recorded = {facts.name: facts.digest for facts in run.indexes}
    for name, index in indexes.items():
        digest = index_facts(name, index).digest
        if digest != recorded.get(name):
            raise RunError(
                f"the index {name!r} in {data_dir} differs from the index of the run. Its digest is "
                f"{digest[:16]}, and the run's index has {recorded.get(name, 'none')[:16]}",
                remedy="pass the workspace of the run (--data-dir), or index the same corpus with the same "
                "settings and the same version of BranchRank",
            )
