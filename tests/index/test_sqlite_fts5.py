"""Keyword search in one SQLite file: terms, exact and partial matches, scores, any query text."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branchrank.core.errors import ArtifactError
from branchrank.core.records import Chunk
from branchrank.core.settings import Bm25Settings
from branchrank.index.stores.sqlite_fts5 import Fts5Table, build_fts5

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


def build(path: Path, chunks: list[Chunk]) -> Fts5Table:
    build_fts5(path, chunks, Bm25Settings())
    return Fts5Table(path, {chunk.id: chunk for chunk in chunks}, Bm25Settings())


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fts5Table]:
    made = build(tmp_path_factory.mktemp("s") / "s.sqlite", CHUNKS)
    yield made
    made.close()


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
def test_a_phrase_matches_exactly(tmp_path: Path, query: str, exact: bool) -> None:
    text = "Give `--cache-redis-url`, or [cache]\n  redis_url = ''; set it\nto the address."
    store = build(tmp_path / "s.sqlite", [chunk("a.md", 1, text)])
    assert any(match.exact for match in store.matches(query, 5)) == exact
    store.close()


def test_the_keyword_score_follows_the_documented_formula(table: Fts5Table) -> None:
    for match in table.matches("client response", 10):
        assert match.score == pytest.approx((match.exact + match.bm25 / (1 + match.bm25)) / 2)
        assert match.bm25 > 0


def test_any_chunk_has_the_bm25_that_a_search_gives_it(tmp_path: Path) -> None:
    chunks = [chunk("a.md", number, "tea " * number + "pot") for number in range(1, 6)]
    table = build(tmp_path / "index.sqlite3", [*chunks, chunk("b.md", 9, "coffee")])
    found = {match.key: match.bm25 for match in table.matches("teas", 10)}
    assert len(found) == 5
    keys = ["a.md@2", "a.md@4", "b.md@9"]
    assert table.bm25("teas", keys) == {key: found.get(key, 0.0) for key in keys}
    assert table.bm25("", keys) == dict.fromkeys(keys, 0.0)
    table.close()


def test_limits_hold_and_ties_break_by_id(tmp_path: Path) -> None:
    chunks = [chunk(f"{n:03}.rst", 1, "the same words") for n in range(99, -1, -1)]
    table = build(tmp_path / "s.sqlite", chunks)
    for n in (1, 12, 80):
        assert [match.key for match in table.matches("same words", n)] == [f"{i:03}.rst@1" for i in range(n)]
    table.close()


NASTY = [
    '"', "'", '""', '*', '^', ':', '(', ')', '()', '-', '+', '{}', 'NEAR(a b)', 'NEAR', 'AND', 'OR',
    'NOT', 'a AND', 'OR b', 'NOT c', 'text:cache', 'breadcrumb : x', 'cache*', '^cache', 'a + b', '--',
    '; DROP TABLE fts', '\x00', 'a\x00b', '😀', 'é', '用户', '_', '___', 'ﷺ', '\ud800', '\x1f', '%', '?',
    '?1', ':a', '$a', '@a', '\\', '/*', '*/', "''", '" OR 1=1 --', 'cache\n\rpool', '\u202e', 'İ', 'ß',
]  # fmt: skip


@pytest.mark.parametrize("number", [250, pytest.param(5_000, marks=pytest.mark.full)])
def test_generated_queries_are_answered(table: Fts5Table, number: int) -> None:
    random_ = random.Random(5)
    queries = [
        " ".join(random_.choices([*NASTY, "cache", "client"], k=random_.randint(1, 6))) for _ in range(number)
    ]
    queries += [
        "".join(random_.choices("\"'*()^:+-{}ANDORTNE cachelient\0\n😀é_", k=random_.randint(0, 24)))
        for _ in range(number)
    ]
    queries += [piece * 10_240 for piece in ("a", '"', "a ", '"a" ', "(", "😀", "cache OR ", "\0", "'", "_")]
    known = {c.id for c in CHUNKS}
    for query in queries:
        matches = table.matches(query, 5)
        assert all(match.key in known and 0.0 <= match.score <= 1.0 for match in matches)
        assert matches == sorted(matches, key=lambda match: (-match.score, match.key))


@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(["red", "green", "blue", "gray"]), min_size=1, max_size=5), max_size=12
    ),
    query=st.lists(st.sampled_from(["red", "green", "blue", "gray", "gr"]), min_size=1, max_size=3),
)
def test_keyword_search_matches_a_reference_implementation(
    texts: list[list[str]], query: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    chunks = [chunk(f"{n:02}.rst", 1, " ".join(words)) for n, words in enumerate(texts)]
    store = build(tmp_path_factory.getbasetemp() / "model.sqlite", chunks)
    found = {match.key: match.exact for match in store.matches(" ".join(query), 100)}
    store.close()
    expected = {
        c.id: any(word in words for word in query)
        for c, words in zip(chunks, texts, strict=True)
        if any(word.startswith(begin) for word in words for begin in query)
    }
    assert found == expected


def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    for name, chunks in (("one", CHUNKS), ("two", CHUNKS[::-1])):
        build(tmp_path / name, chunks).close()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_failed_build_keeps_the_old_file(tmp_path: Path) -> None:
    build(tmp_path / "one", CHUNKS).close()
    before = (tmp_path / "one").read_bytes()
    with pytest.raises(ArtifactError, match="UNIQUE"):
        build(tmp_path / "one", [*CHUNKS, CHUNKS[0]])
    assert (tmp_path / "one").read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "one"]


def test_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database " * 100)
    (tmp_path / "empty").write_bytes(b"")
    for name in ("missing", "text", "empty"):
        with pytest.raises(ArtifactError, match="is damaged"):
            Fts5Table(tmp_path / name, {}, Bm25Settings()).matches("tea", 3)
