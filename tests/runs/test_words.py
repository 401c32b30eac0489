"""Numbers as text: the unit, the digits, and what is said where there is no number."""

from __future__ import annotations

from math import inf
from pathlib import Path

import msgspec
import pytest
from support.made_runs import Planned, make_run

from branchrank.runs.timings import COMPUTE, LLM_WAIT, TOTAL, Timing, Warm
from branchrank.runs.words import (
    FEW_PAGES,
    NOTHING,
    beyond_corpus,
    change,
    counted,
    deciding,
    effect,
    enough_words,
    gap,
    interval_words,
    margin,
    milliseconds,
    number,
    p_value,
    plural,
    sentence,
    size,
    way_on,
    why_open,
)
from branchrank.scoring.comparison import Comparison


def test_differences_are_in_points_for_shares_and_plain_for_other_measures() -> None:
    assert [size(0.139, "strict_hit@1"), size(0.042, "strict_nDCG@5")] == ["13.9 points", "0.042"]
    assert [margin(0.02, "strict_hit@1"), margin(0.02, "strict_nDCG@5")] == ["2 points", "0.02"]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(None, NOTHING), (0.123, "0.12"), (9.99, "9.99"), (10.0, "10.0"), (99.94, "99.9"), (100.0, "100")],
)
def test_times_have_three_digits(ms: float | None, text: str) -> None:
    assert milliseconds(ms) == text


@pytest.mark.parametrize(("p", "text"), [(0.00009, "below 0.0001"), (0.0001, "0.0001"), (0.0512, "0.051")])
def test_a_tiny_p_value_is_below_a_limit(p: float, text: str) -> None:
    assert p_value(p) == text


def test_numbers_have_fixed_digits_and_a_missing_one_has_a_sign() -> None:
    assert [number(1.26), number(1.26, 0), number(None), number(None, 2, "none")] == [
        "1.3",
        "1",
        NOTHING,
        "none",
    ]


def test_the_effect_size_is_an_odds_ratio_or_d_z(tmp_path: Path) -> None:
    made = make_run(tmp_path, (Planned("local", 0.4), Planned("other", 0.8)), latency_sample=0)
    [found] = made.judgment.comparisons

    def told(**values: float | None) -> str:
        return effect(msgspec.structs.replace(found, **values))

    assert (told(odds_ratio=2.0), told(odds_ratio=inf)) == ("odds ratio 2", "odds ratio ∞")
    assert told(odds_ratio=None) == NOTHING
    assert told(d_z=-0.5) == "d_z −0.50"


def test_an_interval_is_told_with_its_level_or_why_there_is_none(tmp_path: Path) -> None:
    made = make_run(tmp_path, (Planned("local", 0.4), Planned("other", 0.8)), latency_sample=0)
    [found] = made.judgment.comparisons
    known = msgspec.structs.replace(found, ci_low=0.1, ci_high=0.25)
    assert interval_words(known) == "95% interval: +10.0 to +25.0"
    assert interval_words(msgspec.structs.replace(known, ci_low=None)) == f"no interval: {FEW_PAGES}"


def test_a_mean_time_is_of_all_questions_less_what_another_stage_took() -> None:
    times = {(TOTAL, "a"): 10.0, (TOTAL, "b"): 20.0, (LLM_WAIT, "b"): 6.0}
    rows = [("local", question, "warm", stage, ms) for (stage, question), ms in times.items()]
    rows += [
        ("local", "c", "first", stage, ms) for stage, ms in ((TOTAL, 90.0), ("rerank", 30.0), ("a", 5.0))
    ]
    rows += [("local", "d", "failed", TOTAL, 1.0), ("other", "a", "warm", TOTAL, 1000.0)]
    timings = [Timing(**dict(zip(Timing.__struct_fields__, row, strict=True))) for row in rows]
    warm = Warm(timings, "local")
    assert (warm.mean(TOTAL), warm.mean(TOTAL, LLM_WAIT), warm.mean(COMPUTE)) == (15.0, 12.0, None)
    assert (warm.first, warm.failed) == (90.0, 1)


@pytest.mark.parametrize(
    ("value", "measure", "shown", "changed"),
    [
        (0.139, "strict_hit@1", "+13.9", "+13.9 points"),
        (-0.139, "Success(rel=2)@1", "−13.9", "−13.9 points"),
        (0.0003, "strict_hit@1", "+0.03", "+0.03 points"),
        (-0.00004, "nDCG@10", "−4e−05", "−4e−05"),
        (-0.0, "nDCG@10", "+0.000", "+0.000"),
        (1e-9, "strict_hit@1", "+0.0", "+0.0 points"),
        (0.042, "relaxed_MRR@5", "+0.042", "+0.042"),
    ],
)
def test_a_difference_has_its_sign_and_digits_that_show_it(
    value: float, measure: str, shown: str, changed: str
) -> None:
    assert (gap(value, measure), change(value, measure)) == (shown, changed)


def test_counts_agree_with_their_nouns_and_verbs() -> None:
    assert [plural(n, "page") for n in (0, 1, 2)] == ["0 pages", "1 page", "2 pages"]
    assert [plural(n, "query") for n in (1, 2)] == ["1 query", "2 queries"]
    assert counted(1, 24, "question", "has", "have") == "1 of 24 questions has"
    assert counted(0, 2, "question", "has", "have") == "0 of 2 questions have"


def test_what_an_open_comparison_needs_is_told(tmp_path: Path) -> None:
    made = make_run(tmp_path, (Planned("local", 0.4), Planned("other", 0.8)), latency_sample=0)
    [whole] = made.judgment.comparisons

    def needing(pages: int, clusters: int = 50, **values: object) -> Comparison:
        """1,200 questions on so many pages would decide."""
        n = 1200 * clusters // pages
        open_ = {"verdict": "inconclusive", "questions_needed": 1200, "n": n}
        return msgspec.structs.replace(whole, **(open_ | {"clusters": clusters} | values))

    unknown = needing(100, questions_needed=None, ci_low=None, ci_high=None)
    assert (deciding(unknown), enough_words(unknown)) == ("", "")
    assert why_open(unknown) == ["inconclusive from so few pages"]
    assert "The 600 questions are on too few pages to tell." in sentence(unknown)
    decided = needing(100, documents=100, mde=0.03)
    assert deciding(decided) == "about 1,200 questions on 100 pages would decide"
    assert why_open(decided) == ["inconclusive", "about 1,200 questions on 100 pages would decide"]
    assert "600 questions can detect a gap of 3.0 points or more; about 1,200" in sentence(decided)
    assert f"differ on {whole.differing} of the 600 questions, too few to detect any gap" in sentence(
        needing(100, mde=None)
    )
    beyond = needing(100, documents=99)
    assert deciding(beyond) == "the corpus has too few pages (99) to decide"
    everywhere = msgspec.structs.replace(unknown, documents=unknown.clusters)
    assert deciding(everywhere) == "the corpus has too few pages (50) to decide"
    one_more = msgspec.structs.replace(unknown, documents=unknown.clusters + 1)
    far = [needing(100, questions_needed=20_001, documents=documents) for documents in (1666, 1667)]
    found = (decided, beyond, needing(100), everywhere, one_more, *far)
    assert [beyond_corpus(each) for each in found] == [False, True, False, True, False, True, False]
    ways = [needing(100, 40, documents=documents) for documents in (79, 80, 81, 100)]
    assert [way_on(found) == "choose by cost" for found in ways] == [True, True, False, False]
    assert [way_on(found).startswith("choose by cost") for found in ways] == [True, True, True, False]
    alike = deciding(needing(100, wins=0, losses=0))
    assert alike.endswith("pages without a difference would show equivalence within 5 points")
