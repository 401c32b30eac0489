"""BM25: the formulas by hand, ties, edges, and files that are never mixed."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.core.errors import ArtifactError
from branchrank.core.settings import Bm25Settings
from branchrank.index.stores.analyzer import analyzer
from branchrank.index.stores.bm25 import Bm25Index, bm25_weights, count_tokens, merged

PLAIN = Bm25Settings(stemmer="none", stop_words="none", split_identifiers=False, k1=1.2, b=0.75)
TEXTS = {
    "a": "red green blue",
    "b": "red red yellow",
    "c": "green",
    "d": "red blue black white gray",
    "e": "",
}


def build(texts: dict[str, str], settings: Bm25Settings = PLAIN) -> Bm25Index:
    return Bm25Index.build(list(texts), list(texts.values()), settings)


def by_hand(texts: dict[str, str], query: str, variant: str, k1: float, b: float) -> dict[str, float]:
    """Every variant's formula as its paper writes it, in plain Python."""
    documents = {key: Counter(text.split()) for key, text in texts.items()}
    n = len(documents)
    average = sum(map(Counter.total, documents.values())) / n or 1.0
    scores = {}
    for key, counts in documents.items():
        norm = 1 - b + b * counts.total() / average
        score = 0.0
        for term in query.split():
            df = sum(term in other for other in documents.values())
            tf = counts[term]
            if not tf:
                continue
            score += {
                "lucene": lambda df, tf, norm: (
                    math.log(1 + (n - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * norm)
                ),
                "robertson": lambda df, tf, norm: (
                    max(0.0, math.log((n - df + 0.5) / (df + 0.5))) * tf / (tf + k1 * norm)
                ),
                "atire": lambda df, tf, norm: math.log(n / df) * (k1 + 1) * tf / (tf + k1 * norm),
                "bm25+": lambda df, tf, norm: math.log((n + 1) / df) * (1 + (k1 + 1) * tf / (tf + k1 * norm)),
                "bm25l": lambda df, tf, norm: (
                    math.log((n + 1) / (df + 0.5)) * (k1 + 1) * (tf / norm + 0.5) / (k1 + tf / norm + 0.5)
                ),
            }[variant](df, tf, norm)
        scores[key] = score
    return scores


@pytest.mark.parametrize("variant", ["lucene", "robertson", "atire", "bm25+", "bm25l"])
@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (2.0, 0.0), (0.0, 0.75)])
def test_scores_match_the_published_formulas(variant: str, k1: float, b: float) -> None:
    settings = Bm25Settings(
        stemmer="none", stop_words="none", split_identifiers=False, k1=k1, b=b, idf=variant
    )  # type: ignore[arg-type]
    index = build(TEXTS, settings)
    for query in ("red", "red blue", "green red red", "white", "nothing", "red nothing"):
        expected = by_hand(TEXTS, query, variant, k1, b)
        assert dict(zip(index.ids, index.scores(query), strict=True)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("texts", [{}, {"a": ""}, {"a": "", "b": "..."}])
def test_an_index_without_words_finds_nothing(texts: dict[str, str], tmp_path: Path) -> None:
    index = build(texts)
    assert index.search("red", 5) == []
    assert index.scores("red").shape == (len(texts),)
    index.save(tmp_path / "bm25")
    assert Bm25Index.load(tmp_path / "bm25", PLAIN).search("red", 5) == []


words = st.lists(st.sampled_from(["red", "green", "blue", "black", "white"]), max_size=6).map(" ".join)


@given(st.lists(words, min_size=1, max_size=12), words, st.integers(0, 14))
def test_search_agrees_with_sorting_all_scores(texts: list[str], query: str, n: int) -> None:
    documents = {f"{(number * 5) % 13}": text for number, text in enumerate(texts)}
    index = build(documents)
    scores = dict(zip(index.ids, index.scores(query).tolist(), strict=True))
    expected = sorted(
        ((key, score) for key, score in scores.items() if score > 0), key=lambda e: (-e[1], e[0])
    )
    assert [tuple(entry) for entry in index.search(query, n)] == expected[:n]
    for key, score in by_hand(documents, query, "lucene", 1.2, 0.75).items():
        assert scores[key] == pytest.approx(score, abs=1e-5)


def test_a_saved_index_gives_the_same_results(tmp_path: Path) -> None:
    settings = Bm25Settings(idf="bm25+", k1=0.7)
    index = build(TEXTS, settings)
    index.save(tmp_path / "one")
    build(TEXTS, settings).save(tmp_path / "two")
    loaded = Bm25Index.load(tmp_path / "one", settings)
    assert tuple(loaded.ids) == tuple(index.ids)
    assert loaded.search("red blue", 5) == index.search("red blue", 5)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


class _Canary:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (pytest.fail, ("a pickle was read",))


def test_other_files_are_refused_and_not_unpickled(tmp_path: Path) -> None:
    build(TEXTS).save(tmp_path / "bm25")
    content = (tmp_path / "bm25").read_bytes()
    np.save(tmp_path / "objects.npy", np.array([_Canary()], dtype=object), allow_pickle=True)
    objects = b'{"ids.text": ["O", [1], 0]}'
    for damaged in (
        b"",
        content[: len(content) // 2],
        content[1:],
        (tmp_path / "objects.npy").read_bytes(),
        pickle.dumps(_Canary()) + objects + len(objects).to_bytes(8, "little"),
    ):
        (tmp_path / "bm25").write_bytes(damaged)
        with pytest.raises(ArtifactError, match="cannot read"):
            Bm25Index.load(tmp_path / "bm25", PLAIN)
    with pytest.raises(ArtifactError, match="cannot read"):
        Bm25Index.load(tmp_path / "missing", PLAIN)


@pytest.mark.parametrize("variant", ["lucene", "robertson", "atire", "bm25+", "bm25l"])
@pytest.mark.parametrize("parts", [1, 3])
def test_weights_have_the_bits_of_bm25s_however_the_texts_are_divided(variant: str, parts: int) -> None:
    settings = Bm25Settings(stemmer="none", stop_words="none", idf=variant, k1=1.37, b=0.61)  # type: ignore[arg-type]
    draw = np.random.default_rng(5)
    texts = [" ".join(f"w{n}" for n in draw.zipf(1.4, size) if n < 500) for size in draw.integers(0, 60, 90)]
    analyze = analyzer(settings)
    numbers: dict[str, int] = {}
    tokens = [[numbers.setdefault(token, len(numbers)) for token in analyze(text)] for text in texts]
    delta = 1.0 if variant == "bm25+" else 0.5
    model = bm25s.BM25(k1=1.37, b=0.61, delta=delta, method=variant, backend="numpy")
    model.index((tokens, {n: n for n in numbers.values()}), create_empty_token=False, show_progress=False)
    expected = model.scores["data"]
    if model.nonoccurrence_array is not None:
        expected = expected + np.repeat(model.nonoccurrence_array, np.diff(model.scores["indptr"]))
    counted = merged(
        [count_tokens(texts[part * 90 // parts : (part + 1) * 90 // parts], analyze) for part in range(parts)]
    )
    found = bm25_weights(counted, settings)
    assert counted.vocabulary == list(numbers)
    assert found.weights.tobytes() == expected.astype(np.float32).tobytes()
    assert np.array_equal(found.documents, model.scores["indices"])
    assert np.array_equal(found.offsets, model.scores["indptr"])
