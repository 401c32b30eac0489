"""MaxSim against its definition, its golden value, and the exactness of its products."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from branchrank.core.ranked_lists import add_scores
from branchrank.core.records import Scored
from branchrank.index.maxsim import TokenPrecision, TokenVectors, maxsim, quantize, unit_tokens

Rows = NDArray[np.float32]
PRECISIONS: tuple[TokenPrecision, ...] = ("int8", "fp16")


def unit(rows: Rows) -> Rows:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / lengths, dtype=np.float32)


def random_rows(seed: int, tokens: int, dimension: int) -> Rows:
    drawn = np.random.default_rng(seed).standard_normal((tokens, dimension))
    return unit(drawn.astype(np.float32))


def by_definition(query: Rows, document: Rows) -> float:
    """The mean over query rows of the largest dot product with a document row, in Python's own numbers."""

    def dot(one: list[float], other: list[float]) -> float:
        return math.fsum(a * b for a, b in zip(one, other, strict=True))

    best = [max(dot(q, d) for d in document.tolist()) for q in query.tolist()]
    return math.fsum(best) / len(best)


shapes = st.lists(st.integers(1, 9), min_size=1, max_size=6)


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 5), shapes, st.integers(2, 40))
def test_maxsim_is_the_mean_of_the_best_matches(
    precision: TokenPrecision, seed: int, query_tokens: int, shape: list[int], dimension: int
) -> None:
    query = random_rows(seed, query_tokens, dimension)
    documents = [random_rows(seed + 1 + n, tokens, dimension) for n, tokens in enumerate(shape)]
    found = maxsim(quantize(query, precision), [quantize(rows, precision) for rows in documents])
    expected = [by_definition(query, document) for document in documents]
    assert found == pytest.approx(expected, abs={"int8": 2e-2, "fp16": 1e-3}[precision])
    assert np.abs(found).max() <= 1 + 1e-6


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.integers(0, 10_000), shapes, st.sampled_from([3, 384, 768, 1040, 1041, 1500]))
def test_a_score_depends_on_no_other_candidate_nor_on_the_order_of_summation(
    precision: TokenPrecision, seed: int, shape: list[int], dimension: int
) -> None:
    query = quantize(random_rows(seed, 4, dimension), precision)
    documents = [
        quantize(random_rows(seed + 1 + n, tokens, dimension), precision) for n, tokens in enumerate(shape)
    ]
    together = maxsim(query, documents).tolist()
    assert [maxsim(query, [document]).item() for document in documents] == together
    order = np.random.default_rng(seed).permutation(dimension)
    shuffled = [TokenVectors(each.values[:, order], each.scales) for each in (query, *documents)]
    assert maxsim(shuffled[0], shuffled[1:]).tolist() == together


def test_the_largest_products_of_bytes_are_exact() -> None:
    for dimension in (1040, 1041):
        row = TokenVectors(np.full((1, dimension), 127, np.int8), np.ones(1, np.float32))
        odd = TokenVectors(row.values.copy(), row.scales)
        odd.values[0, -1] = 126
        assert maxsim(row, [row, odd]).tolist() == [127 * 127 * dimension, 127 * 127 * dimension - 127]


def test_the_number_of_blas_threads_changes_no_bit() -> None:
    code = (
        "import numpy as np\n"
        "from branchrank.index.maxsim import maxsim, quantize\n"
        "draw = np.random.default_rng(7)\n"
        "rows = [draw.standard_normal((n, 384), dtype=np.float32) for n in (11, *range(90, 190, 7))]\n"
        "for p in ('int8', 'fp16'):\n"
        "    vectors = [quantize(r / np.linalg.norm(r, axis=1, keepdims=True), p) for r in rows]\n"
        "    print(maxsim(vectors[0], vectors[1:]).tobytes().hex())\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for threads in ("1", "2", "4")
    }
    assert len(printed) == 1


@pytest.mark.parametrize(("precision", "error"), [("int8", 0.01), ("fp16", 0.001)])
def test_stored_tokens_are_unit_vectors_near_their_own(precision: TokenPrecision, error: float) -> None:
    rows = random_rows(2, 6, 40)
    found = unit_tokens(quantize(rows, precision))
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(6), abs=1e-6)
    assert np.abs(found - rows).max() < error


def test_a_text_without_tokens_scores_nothing() -> None:
    none = quantize(np.zeros((0, 4), np.float32), "int8")
    some = quantize(random_rows(1, 3, 4), "int8")
    assert maxsim(none, [some, none]).tolist() == [0, 0]
    found = maxsim(some, [none, some, none])
    assert found[[0, 2]].tolist() == [0, 0]
    assert found[1] == pytest.approx(1)
    assert maxsim(some, []).shape == (0,)


entries = st.lists(
    st.tuples(st.floats(-2, 2).map(lambda value: round(value, 2)), st.floats(-1, 1)), min_size=1, max_size=12
)


@settings(derandomize=True, deadline=None)
@given(entries, st.integers(0, 12), st.sampled_from([0.0, 0.5, 1.0, 3.0]))
def test_scored_candidates_stay_above_the_others(
    drawn: list[tuple[float, float]], count: int, weight: float
) -> None:
    first = sorted((score for score, _ in drawn), reverse=True)
    ranking = [Scored(f"{number:02}", score) for number, score in enumerate(first)]
    second = {entry.key: score for entry, (_, score) in zip(ranking[:count], drawn, strict=False)}
    result = add_scores(ranking, second, weight)
    assert sorted(result.ids) == [entry.key for entry in ranking]
    assert list(result.scores) == sorted(result.scores, reverse=True)
    tops = dict(result)
    for key, score in second.items():
        assert tops[key] == pytest.approx(dict(ranking)[key] + weight * score)
    if second and weight:
        lowest = min(tops[key] for key in second)
        assert all(tops[entry.key] <= lowest + 1e-12 for entry in ranking[len(second) :])
