"""The recommendation: one sentence for every situation of a run."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import msgspec
from support.commands import invoke
from support.made_runs import Planned, luck, make_questions, make_run

from branchrank.core.records import Question, Retrieval
from branchrank.reports.costs import trade_off
from branchrank.reports.recommendation import (
    Recommendation,
    cautions,
    headline,
    recommendation,
    recommendation_text,
    recommended,
)
from branchrank.run import Run
from branchrank.runs.directory import IndexFacts


class Broken(Planned):
    """Fails every query."""

    def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
        raise RuntimeError("no kettle")


class Twin(Planned):
    """Finds what a system called ``local`` finds, and a share of what it misses."""

    def __init__(self, name: str, share: float, more: float, *, llm: str = "none", kept: int = 4) -> None:
        super().__init__(name, share, llm=llm)
        self.more, self.kept = more, kept

    def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
        found = Planned("local", self.share + self.more).predict(question, k, repeat)
        calls = Planned(self.name, 0, llm=self.llm).predict(question, k, repeat).calls
        return msgspec.structs.replace(found, calls=calls, hits=found.hits[: self.kept])


class Longer(Planned):
    """Returns four more lines before each hit: gold that it finds is not in the first lines."""

    def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
        found = super().predict(question, k, repeat)
        hits = [msgspec.structs.replace(hit, line_start=hit.line_start - 4) for hit in found.hits]
        return msgspec.structs.replace(found, hits=tuple(hits))


def decision(folder: Path, *arms: Planned, count: int = 60, **settings: object) -> tuple[str, str]:
    """What a run of these systems recommends: the kind, and the system."""
    found = recommended(made(folder, *arms, count=count, **settings))
    return found.kind, found.system


def made(folder: Path, *arms: Planned, count: int = 60, **settings: object) -> Run:
    settings.setdefault("latency_sample", 0)
    return make_run(folder, arms, make_questions(count, per_page=2), **settings)


def hits(name: str, share: float, count: int = 60) -> int:
    return sum(luck(name, f"q{number:04}", 0) < share for number in range(count))


def test_a_single_system_is_described_and_not_compared(tmp_path: Path) -> None:
    run = made(tmp_path, Planned("local", 0.6))
    assert recommended(run) == Recommendation(kind="alone", system="local")
    assert f" {hits('local', 0.6)} of 60 questions (95% interval " in recommendation_text(run)


def test_a_clear_winner_is_recommended_with_its_difference(tmp_path: Path) -> None:
    run = made(tmp_path, Planned("local", 0.4), Planned("good", 0.9))
    [comparison] = run.judgment.comparisons
    assert recommended(run) == Recommendation(
        kind="better", system="good", rivals=(comparison,), closest=comparison
    )
    text = recommendation_text(run)
    assert f" {hits('good', 0.9)} of 60 questions, " in text
    assert f"(+{100 * comparison.difference:.1f} points, 95% interval: +" in text


def test_a_lead_that_longer_hits_explain_is_said_with_the_lines(tmp_path: Path) -> None:
    run = made(tmp_path / "one", Planned("local", 0.4), Longer("long", 0.9))
    found = recommended(run)
    assert (found.kind, found.system) == ("longer", "long")
    assert found.reading is not None
    assert (found.reading.lines_a, found.reading.lines_b, found.reading.lines) == (3, 7, 3)
    assert "first hits have 7.0 lines, those of local 3.0. " in recommendation_text(run)
    five = made(tmp_path / "five", Planned("local", 0.1), Longer("long", 0.5), primary="RR@5")
    assert recommended(five).kind == "longer"
    assert "first 5 hits together have 35.0 lines, those of local 15.0. " in recommendation_text(five)
    assert decision(tmp_path / "same", Planned("local", 0.4), Planned("long", 0.9)) == ("better", "long")


def test_a_baseline_that_beats_all_is_recommended(tmp_path: Path) -> None:
    found = recommended(made(tmp_path, Planned("local", 0.9), Planned("poor", 0.2), Planned("poorer", 0.1)))
    assert (found.kind, found.system) == ("better", "local")
    assert [rival.baseline for rival in found.rivals] == ["poor", "poorer"]
    assert found.closest == found.rivals[0]


def test_a_winner_names_the_systems_it_was_not_compared_with(tmp_path: Path) -> None:
    run = made(tmp_path, Planned("poor", 0.2), Planned("good", 0.7), Planned("best", 0.9), baseline="poor")
    found = recommended(run)
    assert (found.kind, found.system) == ("better", "best")
    assert [rival.baseline for rival in found.rivals] == ["poor"]
    assert " with good; --all-pairs " in recommendation_text(run)


def asked_of(run: Run, documents: int) -> Run:
    """The run as one over a corpus of so many pages."""
    facts = IndexFacts(
        **dict.fromkeys(("name", "generation", "digest", "embedder", "model_revision", "vector_store"), "x"),
        **dict.fromkeys(("dimension", "chunks", "nodes", "build_seconds", "bytes"), 0),
        documents=documents,
    )
    return dataclasses.replace(run, record=msgspec.structs.replace(run.record, indexes=(facts,)))


def test_pages_without_a_question_are_a_caution_beside_the_verdict(tmp_path: Path) -> None:
    """Nine wins and no loss on 30 pages: on all pages, or on a few of many."""
    arms = (Planned("local", 0.6), Twin("new", 0.6, 0.05))
    run = make_run(tmp_path / "few", arms, make_questions(150, per_page=5), latency_sample=0)
    for documents, kind in ((0, "better"), (30, "better"), (300, "unasked")):
        seen = asked_of(run, documents)
        [compared] = seen.judgment.comparisons
        assert (compared.verdict, compared.more_pages > 0) == ("better", kind == "unasked")
        assert (recommended(seen).kind, recommended(seen).system) == (kind, "new")
        cautioned = [caution for caution in cautions(seen) if caution.kind == "unasked"]
        assert len(cautioned) == (kind == "unasked")
        assert all(str(compared.more_pages) in caution.words for caution in cautioned)
    assert "Use" not in recommendation_text(asked_of(run, 300))


def test_ties_are_equivalent_if_the_corpus_was_asked(tmp_path: Path) -> None:
    arms = (Planned("local", 0.6), Twin("new", 0.6, 0.0))
    run = make_run(tmp_path, arms, make_questions(300, per_page=10), latency_sample=0)
    for documents, verdict in ((30, "equivalent within delta"), (300, "too few questions to tell")):
        [compared] = asked_of(run, documents).judgment.comparisons
        assert (compared.ties, compared.verdict) == (300, verdict)


def test_a_pilot_recommends_its_winner_for_now(tmp_path: Path) -> None:
    run = made(tmp_path, Planned("poor", 0.05), Planned("best", 0.95), count=30)
    assert (recommended(run).kind, recommended(run).system) == ("better", "best")
    assert [caution.kind for caution in cautions(run)] == ["pilot"]


def test_a_tie_is_reported_as_no_clear_difference(tmp_path: Path) -> None:
    run = made(
        tmp_path, Planned("local", 0.6), Twin("hybrid", 0.6, 0.03), *(Planned(each, 0.1) for each in "abc")
    )
    text = recommendation_text(run)
    found = recommended(run)
    assert found.open is not None
    assert (found.kind, found.system, found.open.baseline) == ("open", "hybrid", "local")
    worse = re.search(
        r" (a \(\S+ points\), b \(\S+ points\) and c \(\S+ points\) are worse than local\.)", text
    )
    assert worse
    assert f" {worse[1]}\n" in invoke("show", run.directory).stdout
    assert "Too few questions to tell." in text


def test_the_headline_and_the_commands_name_the_same_questions_that_would_decide(tmp_path: Path) -> None:
    """One win in 60 questions: no gap is detectable. None at all: what decides is evidence of equivalence."""
    for more, words in (
        (0.03, r"would decide"),
        (0.0, r"without a difference would show equivalence within"),
    ):
        run = made(tmp_path / f"{more}", Planned("local", 0.6), Twin("new", 0.6, more), count=60)
        [found] = run.judgment.comparisons
        assert (found.mde, found.differing == 0) == (None, more == 0)
        step = headline(run, recommended(run)).next
        counts = re.findall(rf"about ([\d,]+ questions on [\d,]+ pages) {words}", step)
        printed = invoke("compare", run.directory).output
        assert invoke("report", run.directory).exit_code == 0
        for text in (printed, (run.directory / "report.md").read_text(encoding="utf-8")):
            assert f"too few to detect any gap; about {counts[0]} {words}" in text


def test_the_ties_that_are_said_to_show_equivalence_show_it(tmp_path: Path) -> None:
    for family in (1, 3):
        arms = (Planned("local", 0.6), *(Twin(f"new{each}", 0.6, 0) for each in range(family)))
        few = make_run(tmp_path / f"few{family}", arms, make_questions(12), latency_sample=0, delta=0.1)
        enough = few.judgment.comparisons[0].enough
        assert enough is not None
        for count, is_equivalent in ((enough[0], True), (enough[0] - 2, False)):
            asked = make_questions(count)
            run = make_run(tmp_path / f"{family}-{count}", arms, asked, latency_sample=0, delta=0.1)
            assert (run.judgment.comparisons[0].verdict == "equivalent within delta") == is_equivalent


def test_a_tie_recommends_the_baseline(tmp_path: Path) -> None:
    arms = (Twin("new", 0.6, 0), Planned("local", 0.6))
    assert decision(tmp_path / "few", *arms, baseline="local") == ("open", "local")
    assert decision(tmp_path / "many", *arms, delta=0.1, baseline="local") == ("settled", "local")


def test_identical_systems_are_said_to_be_identical_without_an_interval(tmp_path: Path) -> None:
    run = made(tmp_path, Planned("local", 0.6), Twin("new", 0.6, 0, kept=5), count=30)
    [found] = run.judgment.comparisons
    assert (found.identical, found.enough, run.summary_rows[0].rates) == (
        True,
        None,
        run.summary_rows[1].rates,
    )
    assert (recommended(run).kind, recommended(run).system) == ("settled", "local")
    for words in ((), ("--all-pairs",)):
        text = invoke("compare", run.directory, *words).output
        assert text.startswith("new vs local: identical hits. strict_hit@1 ")
        assert "interval" not in text
    assert "local (baseline): identical hits." in invoke("compare", run.directory, run.directory).output
    assert invoke("report", run.directory).exit_code == 0
    text = (run.directory / "report.md").read_text(encoding="utf-8")
    assert "| new | identical hits |" in text
    assert "| +0.0 (identical) |" in text


def test_the_verdict_has_at_most_30_words(tmp_path: Path) -> None:
    rest = [Planned(f"poor{each}", 0.1) for each in range(4)]
    situations = {
        "win": [Planned("local", 0.2), Planned("best", 0.95), *rest],
        "tie": [Planned("local", 0.6), Twin("new", 0.6, 0.02), *rest],
        "equal": [Planned("local", 0.6), Twin("new", 0.6, 0, kept=5)],
        "cost": [Planned("local", 0.6), Twin("asks", 0.6, 0.03, llm="tiny")],
        "cheap": [Planned("local", 0.6), Twin("asks", 0.6, 0.01, llm="tiny"), *rest],
        "alone": [Planned("local", 0.6)],
        "nothing": [Planned("local", 0.0), Planned("hybrid", 0.0)],
    }
    for number, (name, arms) in enumerate(situations.items()):
        count, primary = ((30, "relaxed_hit@5"), (60, "strict_MRR@5"))[number % 2]
        run = made(tmp_path / name, *arms, count=count, primary=primary)
        found = headline(run, recommended(run))
        words = f"{found.use[0]} {found.evidence[0]}".split()
        assert len(words) <= 30, words


def test_systems_with_the_same_quality_share_the_highest_observed_quality(tmp_path: Path) -> None:
    run = made(tmp_path, Twin("new", 0.6, 0), Planned("local", 0.6), Planned("poor", 0.1), latency_sample=4)
    words = trade_off(run).blocks[-1]
    assert "Highest observed quality: new, local. " in words
    assert "poor" not in words


def test_a_cheaper_system_is_recommended_only_if_it_loses_less_than_delta(tmp_path: Path) -> None:
    """Ten of 100 more questions may be lost without an LLM: the headline accepts no null hypothesis."""
    arms = (Planned("local", 0.6), Twin("asks", 0.6, 0.03, llm="tiny"))
    run = made(tmp_path / "few", *arms, latency_sample=4)
    found = recommended(run)
    assert found.open is not None
    assert (found.kind, found.system, found.open.baseline) == ("dearer", "asks", "local")
    text = recommendation_text(run)
    assert "asks makes 1 LLM call (1,050 tokens)" in text
    arms = (Planned("local", 0.6), Twin("asks", 0.6, 0.01, llm="tiny"))
    settings = {"count": 200, "latency_sample": 4, "delta": 0.1}
    assert decision(tmp_path / "many", *arms, **settings) == ("cheaper", "local")


def test_an_llm_that_clearly_wins_is_recommended_with_its_cost(tmp_path: Path) -> None:
    run = made(tmp_path, Planned("local", 0.3), Twin("asks", 0.6, 0.3, llm="tiny"), latency_sample=4)
    assert (recommended(run).kind, recommended(run).system) == ("better", "asks")
    assert "It makes 1 LLM call (1,050 tokens)" in recommendation_text(run)


def test_a_system_that_failed_every_query_is_left_out(tmp_path: Path) -> None:
    run = made(tmp_path, Broken("broken", 0.9), Planned("local", 0.6))
    assert recommended(run) == Recommendation(kind="alone", system="local")
    assert run.judgment.comparisons == ()
    [caution] = cautions(run)
    assert (caution.kind, caution.predictor) == ("failed", "broken")
    assert recommendation(run).cautions == (str(caution),)


def test_nothing_is_recommended_when_every_query_failed(tmp_path: Path) -> None:
    assert decision(tmp_path, Broken("a", 0), Broken("b", 0)) == ("failed", "")


def test_nothing_is_recommended_when_no_system_finds_anything(tmp_path: Path) -> None:
    assert decision(tmp_path, Planned("local", 0.0), Planned("hybrid", 0.0), count=5) == ("zero", "local")


def test_nothing_is_recommended_without_an_answerable_question(tmp_path: Path) -> None:
    run = make_run(tmp_path, questions=make_questions(0, unanswerable=3), latency_sample=0)
    assert recommended(run) == Recommendation(kind="unanswerable")
