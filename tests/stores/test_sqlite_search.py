"""Keyword, semantic and hybrid search in one SQLite file."""

import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branchrank.embedders import FakeEmbedder
from branchrank.errors import ArtifactError, UsageError
from branchrank.records import Chunk
from branchrank.settings import RetrievalSettings
from branchrank.stores.sqlite_file import build_sqlite
from branchrank.stores.sqlite_search import (
    TERM_LIMIT,
    SearchResult,
    SqliteSearch,
    fts_expression,
    query_terms,
)

EMBEDDER = FakeEmbedder(32)
TEXTS = {
    "http.rst": [
        "The HttpClient interceptor retries.",
        "Requests are sent by a client.",
        "Timeouts in seconds.",
    ],
    "cache.rst": ["Clear the cache pool.", "Caching of responses.", "A cached response is served again."],
    "deploy.rst": ["The deployment runbook.", "Deploy to production with care."],
}


def chunk(source: str, number: int, text: str) -> Chunk:
    return Chunk(
        id=f"{source}@{number}",
        node_id=source,
        source=source,
        line_start=number * 10,
        line_end=number * 10 + 5,
        breadcrumb=source.removesuffix(".rst"),
        text=text,
    )


CHUNKS = [chunk(source, n, text) for source, texts in TEXTS.items() for n, text in enumerate(texts, start=1)]


def build(path: Path, chunks: list[Chunk], *, embedded: bool = True) -> Path:
    vectors = EMBEDDER.embed_documents([c.text for c in chunks]) if embedded else None
    identity = EMBEDDER.identity if embedded else None
    build_sqlite(path, chunks, corpus_digest="d", vectors=vectors, embedder=identity)
    return path


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory):
    store = SqliteSearch(build(tmp_path_factory.mktemp("s") / "s.sqlite", CHUNKS), embedder=EMBEDDER)
    yield store
    store.close()


def keys(results: list[SearchResult]) -> list[str]:
    return [result.chunks[0].chunk.id for result in results]


def test_keyword_needs_no_embeddings(tmp_path: Path) -> None:
    store = SqliteSearch(build(tmp_path / "s.sqlite", CHUNKS, embedded=False))
    assert keys(store.search("HttpClient interceptor", mode="keyword"))[0] == "http.rst@1"
    for mode in ("semantic", "hybrid"):
        with pytest.raises(UsageError) as error:
            store.search("HttpClient", mode=mode)
        assert '[embedding]\n    model = "all-MiniLM-L6-v2"' in error.value.remedy
    assert keys(store.search("HttpClient", settings=RetrievalSettings(hybrid_alpha=0.0))) == ["http.rst@1"]
    with pytest.raises(ArtifactError, match="no embeddings"):
        SqliteSearch(store.file.path, embedder=EMBEDDER).search("x", mode="semantic")


def test_exact_terms_come_before_partial_ones(search: SqliteSearch) -> None:
    matches = search.keyword_matches("cache", 10)
    assert {m.key for m in matches} == {"cache.rst@1", "cache.rst@2", "cache.rst@3"}
    # All three carry the breadcrumb "cache", so look at one that doesn't.
    assert [m.exact for m in search.keyword_matches("deploying", 10)] == [False, False]
    found = search.keyword_matches("client deploy", 10)
    exact = [m.exact for m in found]
    assert exact == sorted(exact, reverse=True)
    assert all((m.score >= 0.5) == m.exact for m in found)


@pytest.mark.parametrize(
    ("query", "exact"),
    [
        ('"--cache-redis-url"', True),
        ('"[cache] redis_url"', True),
        ("\"redis_url = ''\"", True),
        ('"set  it to\nthe address"', True),
        ('"cache-redis-ur"', False),
        ('"ache-redis-url"', False),
        ("addres", False),
    ],
)
def test_a_phrase_is_exact_where_it_stands_as_written(tmp_path: Path, query: str, exact: bool) -> None:
    text = "Give `--cache-redis-url`, or [cache]\n  redis_url = ''; set it\nto the address."
    store = SqliteSearch(build(tmp_path / "s.sqlite", [chunk("a.md", 1, text)], embedded=False))
    assert any(match.exact for match in store.keyword_matches(query, 5)) == exact
    store.close()


@pytest.mark.parametrize(
    ("query", "key"), [("interc", "http.rst@1"), ("runb", "deploy.rst@1"), ("timeo", "http.rst@3")]
)
def test_a_beginning_of_a_word_matches(search: SqliteSearch, query: str, key: str) -> None:
    (match,) = search.keyword_matches(query, 10)
    assert (match.key, match.exact) == (key, False)
    assert match.score <= 0.5


def test_the_keyword_score_is_the_stated_formula(search: SqliteSearch) -> None:
    for match in search.keyword_matches("client response", 10):
        assert match.score == pytest.approx((match.exact + match.bm25 / (1 + match.bm25)) / 2)
        assert match.bm25 > 0


def test_bm25_is_that_of_the_literature(tmp_path: Path) -> None:
    """FTS5's BM25 (k1 1.2, b 0.75) of a term that one of four equally long chunks holds twice."""
    chunks = [
        chunk(f"{n}.rst", 1, text) for n, text in enumerate(["fig fig", "oak ash", "elm yew", "ivy bay"])
    ]
    (match,) = SqliteSearch(build(tmp_path / "s.sqlite", chunks)).keyword_matches("fig", 10)
    idf = math.log((4 - 1 + 0.5) / (1 + 0.5))
    assert match.bm25 == pytest.approx(idf * 2 * 2.2 / (2 + 1.2))


def test_the_semantic_score_is_the_cosine_clipped_at_zero(search: SqliteSearch) -> None:
    query = EMBEDDER.embed_query("cached response")
    cosines = {c.id: float(EMBEDDER.embed_query(c.text) @ query) for c in CHUNKS}
    results = search.search("cached response", mode="semantic", settings=RetrievalSettings(group_by="none"))
    assert len(results) == len(CHUNKS)
    for result in results:
        assert result.score == pytest.approx(max(0.0, cosines[result.id]), abs=1e-6)
    assert min(cosines.values()) < 0, "no cosine was there to clip"
    assert [r.score for r in results] == sorted((r.score for r in results), reverse=True)


def test_the_hybrid_score_is_rrf_scaled_to_one(search: SqliteSearch) -> None:
    options = RetrievalSettings(group_by="none", rrf_k=60, hybrid_alpha=0.6)
    for result in search.search("clear the cache", settings=options):
        (part,) = result.chunks
        expected = 0.0
        if part.vector is not None:
            expected += 0.6 / (60 + part.vector.rank)
        if part.keyword is not None:
            expected += 0.4 / (60 + part.keyword.rank)
        assert result.score == pytest.approx(61 * expected)
    first = search.search("clear the cache pool", settings=options)[0]
    assert first.id == "cache.rst@1"
    assert first.score == pytest.approx(1.0)


def test_alpha_blends_from_keyword_to_semantic(search: SqliteSearch) -> None:
    query = "interceptor of a client"
    ungrouped = {"group_by": "none", "final_limit": 100}

    def found(alpha: float) -> list[str]:
        return keys(search.search(query, settings=RetrievalSettings(hybrid_alpha=alpha, **ungrouped)))

    def single(mode: str) -> list[str]:
        return keys(search.search(query, mode=mode, settings=RetrievalSettings(**ungrouped)))

    assert found(0.0) == single("keyword")
    assert found(1.0) == single("semantic")
    assert set(found(0.5)) == set(single("keyword")) | set(single("semantic"))
    assert len(found(0.0)) < len(found(0.5)), "a branch of weight 0 brought something in"


def test_a_branch_of_weight_zero_is_not_run(search: SqliteSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("this branch must not run")

    monkeypatch.setattr(search, "semantic", fail)
    assert search.search("cache", settings=RetrievalSettings(hybrid_alpha=0.0))
    monkeypatch.undo()
    monkeypatch.setattr(search, "keyword_matches", fail)
    assert search.search("cache", settings=RetrievalSettings(hybrid_alpha=1.0))


def test_chunks_are_grouped_by_document(search: SqliteSearch) -> None:
    results = search.search("cached caching cache response client")
    assert len({r.id for r in results}) == len(results)
    for result in results:
        assert {part.chunk.source for part in result.chunks} == {result.id}
        assert result.score == result.chunks[0].score
        assert [p.score for p in result.chunks] == sorted((p.score for p in result.chunks), reverse=True)


def test_the_average_of_the_shown_chunks_and_their_limit(search: SqliteSearch) -> None:
    options = RetrievalSettings(doc_agg="avg", max_chunks_per_doc=2)
    for result in search.search("cached caching cache response client", settings=options):
        assert len(result.chunks) <= 2
        assert result.score == pytest.approx(sum(p.score for p in result.chunks) / len(result.chunks))


def test_the_defaults_are_those_of_the_document() -> None:
    defaults = RetrievalSettings()
    assert (defaults.final_limit, defaults.hybrid_alpha) == (12, 0.6)
    assert (defaults.candidate_k_keyword, defaults.candidate_k_vector) == (80, 80)
    assert (defaults.group_by, defaults.doc_agg, defaults.max_chunks_per_doc) == ("document", "max", 3)


def test_limits_hold(tmp_path: Path) -> None:
    chunks = [chunk(f"{n:03}.rst", 1, f"cache number {n}") for n in range(100)]
    store = SqliteSearch(build(tmp_path / "s.sqlite", chunks), embedder=EMBEDDER)
    assert len(store.search("cache")) == 12
    assert len(store.search("cache", mode="keyword", settings=RetrievalSettings(final_limit=1000))) == 80
    few = RetrievalSettings(candidate_k_keyword=5, candidate_k_vector=7, final_limit=1000)
    assert len(store.search("cache", mode="keyword", settings=few)) == 5
    assert len(store.search("cache", mode="semantic", settings=few)) == 7


def test_ties_break_by_id(tmp_path: Path) -> None:
    chunks = [chunk(f"{n}.rst", 1, "the same words") for n in (3, 1, 2)]
    store = SqliteSearch(build(tmp_path / "s.sqlite", chunks), embedder=EMBEDDER)
    for mode in ("keyword", "semantic", "hybrid"):
        assert [r.id for r in store.search("same words", mode=mode)] == ["1.rst", "2.rst", "3.rst"]


def test_a_result_explains_its_score_and_is_a_hit(search: SqliteSearch) -> None:
    result = search.search("HttpClient interceptor")[0]
    text = result.chunks[0].explanation
    assert "keyword rank 1" in text
    assert "BM25" in text
    assert "exact" in text
    assert "cosine" in text
    hit = result.hit
    assert (hit.id, hit.source, hit.line_start, hit.score) == ("http.rst@1", "http.rst", 10, result.score)
    assert set(hit.branches) == {"keyword", "vector"}


def test_another_embedder_is_refused(search: SqliteSearch) -> None:
    with pytest.raises(ArtifactError, match="embedded with"):
        SqliteSearch(search.file.path, embedder=FakeEmbedder(16))


def test_terms_of_a_query() -> None:
    assert query_terms('how do I clear the "cache pool" (fast)') == ["clear", "cache pool", "fast"]
    assert query_terms("how do I") == ["how", "do", "i"]
    assert query_terms('"" ... ***') == []
    assert len(query_terms(" ".join(f"w{n}" for n in range(1000)))) == TERM_LIMIT
    assert fts_expression(['a"b', "NOT"], prefix=True) == '"a""b"* OR "NOT"*'


NASTY = [
    '"', "'", '""', '*', '^', ':', '(', ')', '()', '-', '+', '{}', 'NEAR(a b)', 'NEAR', 'AND', 'OR',
    'NOT', 'a AND', 'OR b', 'NOT c', 'text:cache', 'breadcrumb : x', 'cache*', '^cache', 'a + b', '--',
    '; DROP TABLE fts', '\x00', 'a\x00b', '😀', 'é', '用户', '_', '___', 'ﷺ', '\ud800', '\x1f', '%', '?',
    '?1', ':a', '$a', '@a', '\\', '/*', '*/', "''", '" OR 1=1 --', 'cache\n\rpool', '\u202e', 'İ', 'ß',
]  # fmt: skip


def test_ten_thousand_generated_queries_are_answered(search: SqliteSearch) -> None:
    random_ = random.Random(5)
    queries = [
        " ".join(random_.choices([*NASTY, "cache", "client"], k=random_.randint(1, 6))) for _ in range(5000)
    ]
    queries += [
        "".join(random_.choices("\"'*()^:+-{}ANDORTNE cachelient\0\n😀é_", k=random_.randint(0, 24)))
        for _ in range(4990)
    ]
    queries += [piece * 10_240 for piece in ("a", '"', "a ", '"a" ', "(", "😀", "cache OR ", "\0", "'", "_")]
    assert len(queries) == 10_000
    known = {c.id for c in CHUNKS}
    for query in queries:
        for match in search.keyword_matches(query, 5):
            assert match.key in known
            assert 0.0 <= match.score <= 1.0


@settings(derandomize=True, max_examples=100, deadline=None)
@given(query=st.text(max_size=60), mode=st.sampled_from(["keyword", "semantic", "hybrid"]))
def test_scores_lie_in_the_unit_interval(search: SqliteSearch, query: str, mode: str) -> None:
    if mode != "keyword" and not query.strip():
        return
    results = search.search(query + " cache", mode=mode)
    assert all(0.0 <= result.score <= 1.0 for result in results)
    assert [r.score for r in results] == sorted((r.score for r in results), reverse=True)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(["red", "green", "blue", "grey"]), min_size=1, max_size=5), max_size=12
    ),
    query=st.lists(st.sampled_from(["red", "green", "blue", "grey", "gr"]), min_size=1, max_size=3),
)
def test_keyword_search_finds_what_a_dictionary_of_words_finds(
    texts: list[list[str]], query: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    chunks = [chunk(f"{n:02}.rst", 1, " ".join(words)) for n, words in enumerate(texts)]
    store = SqliteSearch(build(tmp_path_factory.getbasetemp() / "model.sqlite", chunks, embedded=False))
    found = {match.key: match.exact for match in store.keyword_matches(" ".join(query), 100)}
    store.close()
    expected = {
        c.id: any(word in words for word in query)
        for c, words in zip(chunks, texts, strict=True)
        if any(word.startswith(begin) for word in words for begin in query)
    }
    assert found == expected


def test_vectors_come_back_bit_for_bit(search: SqliteSearch) -> None:
    texts = {c.id: c.text for c in CHUNKS}
    expected = EMBEDDER.embed_documents([texts[key] for key in search.ids])
    assert np.array_equal(search.file.vectors(), expected)
