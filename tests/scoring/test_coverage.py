"""``benchmarks/interval_coverage.py``, briefly: intervals hold, tests and verdicts keep their level."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from branchrank.scoring import significance

SAMPLES = 200


@pytest.fixture(scope="module")
def coverage() -> Iterator[ModuleType]:
    path = Path(__file__).parents[2] / "benchmarks" / "interval_coverage.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_coverage", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(path.parent))
        patched.setattr(significance, "EXACT_CLUSTERS", 10)  # as the benchmark sets it, for this module only
        spec.loader.exec_module(module)
        yield module


def noise(share: float) -> float:
    """Three standard errors of a share of the samples."""
    return float(3 * np.sqrt(share * (1 - share) / SAMPLES))


@pytest.mark.parametrize(
    ("structure", "n", "icc", "model", "p"),
    [
        ("sample", 50, 0.5, "rates", 0.5),
        ("sample", 100, 0.5, "shared", 0.9),
        pytest.param("sample", 160, 0.5, "rates", 0.9, marks=pytest.mark.full),
        pytest.param("sample", 160, 0.5, "shared", 0.1, marks=pytest.mark.full),
        pytest.param("sample", 160, 0.5, "shared", 0.98, marks=pytest.mark.full),
        pytest.param("sample", 160, 0.0, "rates", 0.5, marks=pytest.mark.full),
        ("Symfony", 50, 0.0, "rates", 0.98),
        pytest.param("Symfony", 160, 0.5, "shared", 0.5, marks=pytest.mark.full),
    ],
)
def test_intervals_have_their_coverage_and_verdicts_their_level(
    coverage: ModuleType, structure: str, n: int, icc: float, model: str, p: float
) -> None:
    found = coverage.measure_pages(coverage.Cell(structure, n, icc, model, p), SAMPLES)
    for name in ("rate", "mean", "coverage"):
        assert found[name] >= 0.93 - noise(0.93)
    for name in ("type I", "type I, ranks"):
        assert found[name] <= 0.05 + noise(0.05)
    assert found["equivalent"] <= 0.025 + noise(0.025)
    assert found["disagree"] == 0


def test_intervals_that_ignore_pages_do_not_reach_their_coverage(coverage: ModuleType) -> None:
    sizes, random = coverage.page_sizes("sample", 160), np.random.default_rng(160)
    rate = coverage.samples(coverage.hits(0.5), sizes, 0.5, "rates", SAMPLES, random)
    assert coverage.holds(coverage.wilson_bounds(rate.mean, rate.n), 0.5) < 0.75


def test_the_planned_power_is_reached(coverage: ModuleType) -> None:
    assert coverage.delivered("sample", 0.2, "shared", 0.4, SAMPLES)["power"] >= 0.8 - noise(0.8)


def test_topics_over_several_pages_are_one_cluster(coverage: ModuleType) -> None:
    found = coverage.measure_topics(4, 2, SAMPLES // 4)
    assert found["pages as clusters"] > 0.15
    assert found["topics as clusters"] <= 0.05 + 2 * noise(0.05)
