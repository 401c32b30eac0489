"""Whole run directories made in a moment: the real benchmark over predictors whose answers are planned."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from branchrank.core.records import GoldItem, Hit, LLMCall, Question, Retrieval, StageTrace
from branchrank.core.settings import BenchmarkSettings, resolve
from branchrank.documents.loading import digest_now
from branchrank.questions.question_files import questions_digest
from branchrank.run import Run
from branchrank.runs import slices
from branchrank.runs.bench.opening import OpenPlan
from branchrank.runs.bench.places import HitPlaces
from branchrank.runs.bench.plan import Plan
from branchrank.runs.bench.running import BenchmarkOptions, run_opened
from branchrank.runs.directory import PredictorRecord, RunRecord
from branchrank.runs.rows import Row
from branchrank.runs.timings import Timing
from branchrank.search.llm.ledger import PriceTable

PAGE_LINES = 40

#: The pages of all made runs are alike, so each is parsed once.
slices.read_document = lru_cache(maxsize=4096)(slices.read_document)  # type: ignore[assignment]


def luck(*words: object) -> float:
    """A number in 0..1 that the words alone decide."""
    digest = hashlib.sha256("\x00".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def make_corpus(root: Path, pages: int, text: str = "kettle") -> Path:
    """``pages`` Markdown pages with a heading in line 1 and another in line 21."""
    root.mkdir(parents=True, exist_ok=True)
    for page in range(pages):
        lines = [f"# Page {page}", "", *(f"{text} {page} line {n}" for n in range(3, 21))]
        lines += [f"## Part {page}", "", *(f"{text} {page} line {n}" for n in range(23, PAGE_LINES + 1))]
        (root / f"page-{page}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def make_questions(count: int, *, per_page: int = 1, unanswerable: int = 0) -> list[Question]:
    """Questions whose gold lies on lines 5-8 or 25-28 of their page."""
    questions = []
    for number in range(count):
        first = 5 if number % 2 else 25
        questions.append(
            Question(
                id=f"q{number:04}",
                question=f"where does kettle {number} boil",
                gold=(
                    GoldItem(
                        source_file=f"page-{number // per_page}.md",
                        answer_line_start=first,
                        answer_line_end=first + 3,
                    ),
                ),
                kind="howto" if number % 3 else "lookup",
                difficulty="hard" if number % 2 else "easy",
            )
        )
    for number in range(unanswerable):
        questions.append(Question(id=f"u{number:04}", question=f"nothing {number}", answerable=False))
    return questions


class Planned:
    """Finds the gold at rank 1 of ``share`` of the questions, at rank 3 of half of the rest."""

    def __init__(self, name: str, share: float, *, llm: str = "none", fails: str = "") -> None:
        self.name, self.share, self.llm, self.fails = name, share, llm, fails

    def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
        if self.fails and question.id == self.fails:
            raise RuntimeError("the kettle is | <b>empty</b>")
        lucky = luck(self.name, question.id, repeat if self.llm != "none" else 0)
        rank = 1 if lucky < self.share else 3 if lucky < (1 + self.share) / 2 else 0
        source, gold = "page-0.md", None
        if question.gold:
            source, gold = question.gold[0].source_file, question.gold[0].span
        hits = []
        for place in range(1, min(k, 5) + 1):
            start = 35 if gold is None or place != rank else gold.line_start
            page = source.removeprefix("page-").removesuffix(".md")
            hits.append(
                Hit(
                    id=f"{source}@{place}",
                    source=source,
                    line_start=start,
                    line_end=start + 2,
                    text="\n".join(f"kettle {page} line {line}" for line in range(start, start + 3)),
                    score=1 / place,
                )
            )
        keys = tuple(hit.id for hit in hits)
        scores = tuple(hit.score for hit in hits)
        calls = ()
        if self.llm != "none":
            calls = (
                LLMCall(
                    predictor=self.name,
                    question_id=question.id,
                    stage="rerank",
                    attempt=1,
                    repeat=repeat,
                    model=self.llm,
                    prompt_tokens=1000,
                    completion_tokens=50,
                    cached_tokens=0,
                    reported=True,
                    latency_ms=20.0,
                    served_by="cassette",
                    outcome="ok",
                ),
            )
        return Retrieval(
            hits=tuple(hits),
            trace=tuple(
                StageTrace(stage=stage, unit="chunk", keys=keys, scores=scores)
                for stage in ("dense(chunks)", "fusion", "passages")
            ),
            stage_ms={"dense(chunks)": 0.5, "fusion": 0.1},
            calls=calls,
            fallbacks=("rerank: timeout",) if self.llm != "none" and lucky > 0.95 else (),
        )

    def gold_keys(self, question: Question) -> frozenset[str]:
        return frozenset({f"{question.gold[0].source_file}@1"}) if question.gold else frozenset()


def run_of(
    rows: Sequence[Row], questions: Sequence[Question], timings: Sequence[Timing] = (), **settings: Any
) -> Run:
    """A run in memory, with a record that names its predictors and settings."""
    part = BenchmarkSettings(**settings)
    return Run(
        directory=Path("reports/made"),
        record=RunRecord(
            experiment="made",
            created="2026-01-01T00:00:00+00:00",
            command="branchrank benchmark",
            seed=part.sample_seed,
            corpus="",
            corpus_digest="",
            questions_file="questions.jsonl",
            questions_digest=questions_digest(questions),
            question_ids=tuple(question.id for question in questions),
            top_k=part.top_k,
            mode=part.mode,
            predictors=tuple(
                PredictorRecord(name=name, llm=llm)
                for name, llm in {row.predictor: row.llm for row in rows}.items()
            ),
            settings={"benchmark": msgspec.to_builtins(part)},
        ),
        rows=tuple(rows),
        asked=tuple(questions),
        timed=tuple(timings),
    )


class WithoutReport(Run):
    """A run whose report is not written."""

    def publish(self) -> None:
        pass


def make_run(
    folder: Path,
    predictors: Sequence[Any] = (Planned("local", 0.6), Planned("hybrid", 0.5)),
    questions: Sequence[Question] | None = None,
    *,
    experiment: str = "made",
    command: str = "branchrank benchmark",
    repeats: int = 1,
    prices: PriceTable | None = None,
    change: Callable[[RunRecord], RunRecord] = lambda run: run,
    **settings: Any,
) -> Run:
    """Run the planned predictors over a corpus in ``folder/docs``; the run is under ``folder/reports``.

    What is returned was made in memory; ``Run.load`` reads its directory.
    """
    asked = make_questions(60) if questions is None else list(questions)
    root = folder / "docs"
    if not root.exists():
        make_corpus(root, max(60, len(asked)))
    part = BenchmarkSettings(**{"latency_sample": 4, "top_k": 5, **settings})
    records = tuple(
        PredictorRecord(name=each.name, llm=each.llm, repeats=repeats if each.llm != "none" else 1)
        for each in predictors
    )
    run = RunRecord(
        experiment=experiment,
        created="2026-01-01T00:00:00+00:00",
        command=command,
        seed=part.sample_seed,
        split="test",
        corpus=str(root),
        corpus_digest=digest_now(root, ()),
        questions_file="questions.jsonl",
        questions_digest=questions_digest(asked),
        question_ids=tuple(question.id for question in asked),
        top_k=part.top_k,
        mode=part.mode,
        predictors=records,
        settings={"benchmark": msgspec.to_builtins(part)},
        prices=prices,
    )
    opened = opened_plan(predictors, records, part, root, asked)
    opened = replace(opened, plan=replace(opened.plan, reports=folder / "reports"))
    return run_opened(change(run), opened, BenchmarkOptions(fresh=True), WithoutReport)


def opened_plan(
    predictors: Sequence[Any],
    records: tuple[PredictorRecord, ...],
    part: BenchmarkSettings,
    corpus: Path | None = None,
    asked: Sequence[Question] = (),
) -> OpenPlan:
    """Open predictors that were not made from names."""
    made = tuple(predictors)
    settings = resolve(environment={}).with_parts(part)
    plan = Plan(data_dir=Path(), settings=settings, predictors=made, indexes={})
    places = None if corpus is None else HitPlaces(corpus)
    return OpenPlan(
        plan=plan,
        questions=tuple(asked),
        records=records,
        predictors=made,
        unmemoized=made,
        corpus=corpus,
        places=places,
    )
