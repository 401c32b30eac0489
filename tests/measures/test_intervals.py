"""Wilson's interval against Newcombe's examples; the bootstrap against scipy and by its coverage."""

import numpy as np
import pytest

from branchrank.measures.intervals import paired_bootstrap, rate, unseen_interval


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [  # Newcombe, Statistics in Medicine 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_as_published(successes, n, low, high):
    found = rate(successes, n)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    assert found.value == successes / n


def test_wilson_at_the_edges():
    assert rate(20, 20).high == 1.0
    nothing = rate(0, 0)
    assert (nothing.value, nothing.low, nothing.high) == (0.0, 0.0, 1.0)


def singles(values):
    return [str(number) for number in range(len(values))]


def test_bootstrap_as_scipy_without_clusters():
    from scipy.stats import bootstrap

    values = np.random.default_rng(5).choice([-1, -0.5, 0, 0, 0.2, 0.5, 1], size=80)
    expected = bootstrap((values,), np.mean, method="BCa", rng=1, n_resamples=9_999).confidence_interval
    found = paired_bootstrap(values, singles(values))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.006)


def test_bootstrap_as_scipy_with_clusters_of_unequal_size():
    from scipy.stats import bootstrap

    rng = np.random.default_rng(6)
    sizes = rng.integers(1, 9, size=40)
    values = [rng.normal(rng.normal(0.05, 0.3), 0.1, size).clip(-1, 1) for size in sizes]
    clusters = [str(number) for number, size in enumerate(sizes) for _ in range(size)]
    expected = bootstrap(
        (np.array([each.sum() for each in values]), sizes.astype(float)),
        lambda total, size, axis=-1: total.sum(axis=axis) / size.sum(axis=axis),
        paired=True,
        method="BCa",
        rng=1,
        n_resamples=9_999,
        batch=1_000,
    ).confidence_interval
    found = paired_bootstrap(np.concatenate(values), clusters)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.006)


def test_bootstrap_repeats_by_seed():
    values = np.random.default_rng(1).normal(size=30).clip(-1, 1)
    first = paired_bootstrap(values, singles(values), seed=1, resamples=999)
    assert paired_bootstrap(values, singles(values), seed=1, resamples=999) == first
    assert paired_bootstrap(values, singles(values), seed=2, resamples=999) != first


@pytest.mark.parametrize(
    ("values", "clusters"),
    [([0.0] * 10, None), ([1.0] * 10, None), ([0.5, -0.5, 0.0], ["a", "a", "a"]), ([0.3], None)],
    ids=["no pair differs", "all alike", "one cluster", "one question"],
)
def test_bootstrap_admits_what_it_has_not_seen(values, clusters):
    found = paired_bootstrap(values, clusters or singles(values))
    mean = sum(values) / len(values)
    assert found == unseen_interval(mean, len(set(clusters or singles(values))))
    assert -1 <= found.low <= mean <= found.high <= 1
    assert found.high - found.low > 0.2


def test_unseen_interval_shrinks_with_n():
    widths = [unseen_interval(0.0, n).high for n in (20, 100, 200)]
    assert widths == pytest.approx([0.168, 0.036, 0.018], abs=0.001)


def coverage(make, runs=300):
    """Share of intervals that hold the true mean of 0.1."""
    rng = np.random.default_rng(99)
    held = 0
    for _ in range(runs):
        values, clusters = make(rng)
        found = paired_bootstrap(values, clusters, resamples=999)
        held += found.low <= 0.1 <= found.high
    return held / runs


def independent(rng):
    values = rng.choice([-1, 0, 1], size=100, p=[0.1, 0.7, 0.2])
    return values, singles(values)


def by_page(rng):
    values = np.repeat(rng.choice([-1, 0, 1], size=50, p=[0.15, 0.6, 0.25]), 4)
    return values, [str(number // 4) for number in range(200)]


@pytest.mark.parametrize("make", [independent, by_page])
def test_intervals_cover(make):
    assert coverage(make) >= 0.95 - 3 * (0.05 * 0.95 / 300) ** 0.5


def test_intervals_that_ignore_clusters_do_not_cover():
    assert coverage(lambda rng: (by_page(rng)[0], singles(range(200)))) < 0.85
