"""Numbers as text: the unit, the digits, and what is said where there is no number."""

from __future__ import annotations

from math import inf
from pathlib import Path

import msgspec
import pytest
from support.made_runs import Planned, make_run

from branchrank.runs.timings import COMPUTE, LLM_WAIT, TOTAL, Timing, Warm
from branchrank.runs.words import FEW_PAGES, NOTHING, effect, margin, milliseconds, number, p_value, size


def test_differences_are_in_points_for_shares_and_plain_for_other_measures() -> None:
    assert [size(0.139, "strict_hit@1"), size(0.042, "strict_nDCG@5")] == ["13.9 points", "0.042"]
    assert [margin(0.02, "strict_hit@1"), margin(0.02, "strict_nDCG@5")] == ["2 points", "0.02"]


@pytest.mark.parametrize(
    ("ms", "text"), [(None, NOTHING), (0.123, "0.12"), (9.99, "9.99"), (10.0, "10.0"), (100.0, "100")]
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


def test_the_odds_ratio_has_its_interval_or_says_why_not(tmp_path: Path) -> None:
    made = make_run(tmp_path, (Planned("local", 0.4), Planned("other", 0.8)), latency_sample=0)
    [found] = made.judgment.comparisons

    def told(**values: float | None) -> str:
        return effect(msgspec.structs.replace(found, **values))

    known = {"odds_ratio": 2.0, "odds_low": 1.25, "odds_high": inf}
    assert told(**known) == "odds ratio 2 (1.2 to ∞)"
    for unknown in ("odds_low", "odds_high"):
        assert told(**{**known, unknown: None}) == f"odds ratio 2 ({FEW_PAGES})"
    assert told(odds_ratio=None) == NOTHING
    assert told(d_z=-0.5) == "d_z −0.50"


def test_a_mean_time_is_of_all_questions_less_what_another_stage_took() -> None:
    times = {(TOTAL, "a"): 10.0, (TOTAL, "b"): 20.0, (LLM_WAIT, "b"): 6.0}
    warm = Warm(
        [
            Timing(predictor="local", question_id=question, phase="warm", stage=stage, ms=ms)
            for (stage, question), ms in times.items()
        ],
        "local",
    )
    assert (warm.mean(TOTAL), warm.mean(TOTAL, LLM_WAIT), warm.mean(COMPUTE)) == (15.0, 12.0, None)
