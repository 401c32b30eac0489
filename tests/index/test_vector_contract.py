"""What every vector store promises, asked of each: exact, Chroma embedded, a Chroma server."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.chroma_process import chroma_server

from branchrank.core.errors import ArtifactError
from branchrank.index.embedders.protocol import Vectors
from branchrank.index.stores.arrays import write_arrays
from branchrank.index.stores.chroma import ChromaVectors, build_collection
from branchrank.index.stores.vectors import ExactVectors, load_vectors, recall_against_exact, save_vectors

Make = Callable[[Sequence[str], Vectors], ExactVectors]
_NUMBERS = count()


def unit(rows: Sequence[Sequence[float]] | Vectors) -> Vectors:
    matrix = np.asarray(rows, dtype=np.float64)
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


def random_rows(size: int, dimension: int, seed: int = 0) -> Vectors:
    return unit(np.random.default_rng(seed).normal(size=(size, dimension)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chroma_server(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture(
    scope="module", params=["exact", "chroma", pytest.param("chroma server", marks=pytest.mark.full)]
)
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    opened: list[ExactVectors] = []

    def build(ids: Sequence[str], matrix: Vectors) -> ExactVectors:
        number = next(_NUMBERS)
        store: ExactVectors
        if request.param == "exact":
            path = tmp_path_factory.mktemp("exact") / "vectors.npy"
            save_vectors(path, matrix)
            store = ExactVectors(ids, load_vectors(path, *matrix.shape))
        else:
            location: Path | str = tmp_path_factory.mktemp("chroma") / "chroma"
            if request.param == "chroma server":
                location = request.getfixturevalue("server")
            build_collection(location, f"vectors-{number}", ExactVectors(ids, matrix))
            store = ChromaVectors(location, f"vectors-{number}", ExactVectors(ids, matrix))
        opened.append(store)
        return store

    yield build
    for store in opened:
        store.close()


def reference(ids: Sequence[str], matrix: Vectors, query: Vectors, n: int) -> list[tuple[str, float]]:
    """The dictionary that a store is compared with: sums in exact arithmetic, sorted."""
    scores = {
        key: math.fsum(float(a) * float(b) for a, b in zip(row, query, strict=True))
        for key, row in zip(ids, matrix, strict=True)
    }
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:n]


def test_equal_scores_are_sorted_by_id_even_at_the_cutoff(make: Make) -> None:
    ids = [f"k{number:03}" for number in range(60)]
    shuffled = list(np.random.default_rng(3).permutation(ids))
    rows = np.repeat(random_rows(1, 33), 60, axis=0)
    found = make(shuffled, rows).search(random_rows(1, 33, seed=1)[0], 7)
    assert [entry.key for entry in found] == ids[:7]
    assert len({entry.score for entry in found}) == 1


def test_an_empty_store_finds_nothing(make: Make) -> None:
    store = make([], np.empty((0, 4), dtype=np.float32))
    assert len(store.ids) == 0
    assert store.search(random_rows(1, 4)[0], 3) == []


def test_a_query_of_another_dimension_is_refused(make: Make) -> None:
    store = make(["a", "b"], random_rows(2, 4))
    with pytest.raises(ArtifactError, match="dimension 4") as caught:
        store.search(random_rows(1, 5)[0], 1)
    assert "--embedder" in caught.value.remedy


def test_every_store_gives_the_exact_stores_scores(make: Make) -> None:
    matrix = random_rows(400, 24)
    ids = [f"k{number}" for number in range(400)]
    store, exact = make(ids, matrix), ExactVectors(ids, matrix)
    queries = random_rows(20, 24, seed=5)
    assert [store.search(query, 25) for query in queries] == [exact.search(query, 25) for query in queries]
    assert recall_against_exact(store, exact, queries, 25) == 1.0


def test_any_id_scores_as_it_does_in_a_search(make: Make) -> None:
    matrix = random_rows(60, 24)
    ids = [f"k{number}" for number in range(60)]
    store, query = make(ids, matrix), random_rows(1, 24, seed=5)[0]
    found = dict(store.search(query, 60))
    assert store.scores(query, ids[::-3]).tolist() == [found[key] for key in ids[::-3]]
    assert store.scores(query, []).shape == (0,)
    with pytest.raises(KeyError):
        store.scores(query, ["k0", "unknown"])


grids = st.integers(1, 40).flatmap(
    lambda size: st.lists(st.tuples(*[st.integers(-2, 2)] * 3).filter(any), min_size=size, max_size=size)
)


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=grids, query=st.tuples(*[st.integers(-2, 2)] * 3).filter(any), n=st.integers(0, 50))
def test_a_store_agrees_with_a_dictionary(
    make: Make, rows: list[tuple[int, ...]], query: tuple[int, ...], n: int
) -> None:
    """Coarse rows, so that many scores are equal or nearly so."""
    matrix, vector = unit(rows), unit([query])[0]
    ids = [f"{(number * 7) % 97}" for number in range(len(rows))]
    found = make(ids, matrix).search(vector, n)
    expected = reference(ids, matrix, vector, len(ids))
    assert len(found) == min(n, len(ids))
    truth = dict(expected)
    for entry, (_, best) in zip(found, expected, strict=False):
        # Rows whose exact sums differ by less than a float64 can hold may stand in either order.
        assert entry.score == pytest.approx(truth[entry.key], abs=1e-15)
        assert entry.score == pytest.approx(best, abs=1e-15)
    assert found == sorted(found, key=lambda entry: (-entry.score, entry.key))


def test_equal_rows_have_equal_scores_at_any_position() -> None:
    """A matrix product may round the last rows of a block otherwise than the first."""
    for size in (1, 2, 3, 5, 9, 31, 67, 130):
        rows = np.repeat(random_rows(1, 129, seed=size), size, axis=0)
        ids = [f"{number:03}" for number in reversed(range(size))]
        found = ExactVectors(ids, rows).search(random_rows(1, 129, seed=200 + size)[0], size)
        assert [entry.key for entry in found] == sorted(ids)


def test_recall_counts_the_misses_of_an_approximate_store() -> None:
    matrix = random_rows(10, 4)
    ids = [f"k{number}" for number in range(10)]
    exact = ExactVectors(ids, matrix)
    half = ExactVectors(ids[:5], matrix[:5])
    assert recall_against_exact(half, exact, matrix, 10) == pytest.approx(0.5)
    assert recall_against_exact(exact, exact, [], 10) == 1.0


def test_an_array_of_another_shape_or_type_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npy"
    save_vectors(path, random_rows(2, 3))
    with pytest.raises(ArtifactError, match=r"\(2, 3\).*\(2, 4\)"):
        load_vectors(path, 2, 4)
    write_arrays(path, [("vectors", random_rows(2, 3).astype(np.float64))])
    with pytest.raises(ArtifactError, match="float64"):
        load_vectors(path, 2, 3)
    np.save(path, np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(ArtifactError, match="cannot read"):
        load_vectors(path, 1, 1)
    with pytest.raises(ArtifactError, match="3 ids, but 2 vectors"):
        ExactVectors(["a", "b", "c"], random_rows(2, 3))
