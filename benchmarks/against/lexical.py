"""Compare BranchRank's BM25 with that of bm25s, tantivy, rank_bm25 and SQLite FTS5.

All programs count the same tokens, because each program gets the tokens of BranchRank's analyzer. For a
program that tokenizes text itself, each token is replaced by a made-up word such as ``t12``, which no stemmer
or stop list changes. In every program, the time of a query includes the time to analyze its text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.against.pairs import Pair, Source
from benchmarks.against.world import World, missing, named
from branchrank.core.settings import Bm25Settings
from branchrank.index.stores.analyzer import analyzer
from branchrank.index.stores.bm25 import Bm25Index

DEPTH = 40
GROUP = "lexical query"
WHAT = f"BM25, first {DEPTH}"
#: The number of questions per timed call of rank_bm25, which is slow (tens of milliseconds per question).
SLOW = 10

Found = list[tuple[int, float]]


def pairs(world: World) -> Source:
    """Yield one comparison with each program."""
    settings = Bm25Settings()
    analyze = analyzer(settings)
    tokens = [analyze(text) for text in world.terms]
    yield from _bm25s(world, tokens)
    yield from _tantivy(world, tokens)
    yield from _rank_bm25(world, tokens)
    yield from _fts5(world, tokens)


def _pair(
    world: World,
    against: str,
    settings: Bm25Settings,
    theirs: Callable[[str], Found],
    answers: str,
    most: int = 0,
) -> Pair:
    ours = _ours(world, settings)
    queries = world.queries[: most or None]
    return Pair(
        GROUP,
        WHAT,
        against,
        lambda: [ours.search(query, DEPTH) for query in queries],
        lambda: [theirs(query) for query in queries],
        len(queries),
        "question",
        answers,
    )


def _ours(world: World, settings: Bm25Settings) -> Bm25Index:
    return Bm25Index.build(world.ids, world.terms, settings)


def _same_scores(
    world: World, settings: Bm25Settings, theirs: Callable[[str], Found], factor: float, most: int = 0
) -> str:
    """For every question, check that both programs give the first results the same scores, rank by rank."""
    ours, worst = _ours(world, settings), 0.0
    for query in world.queries[: most or None]:
        a = np.array([score for _, score in ours.search(query, DEPTH)])
        b = np.array([score for _, score in theirs(query)])[: len(a)]
        assert len(a) == len(b), query
        worst = max(worst, float(np.abs(a * factor / b - 1).max(initial=0)))
    assert worst < 1e-3, f"scores differ by {worst:.1e}"
    return "the same scores"


def _best(scores: NDArray[np.float64]) -> Found:
    top = np.argpartition(-scores, DEPTH)[:DEPTH] if len(scores) > DEPTH else np.arange(len(scores))
    return [(int(n), float(scores[n])) for n in top[np.argsort(-scores[top])] if scores[n] > 0]


def _bm25s(world: World, tokens: Sequence[Sequence[str]]) -> Iterator[Pair]:
    import bm25s

    settings = Bm25Settings()
    analyze = analyzer(settings)
    model = bm25s.BM25(method=settings.idf, k1=settings.k1, b=settings.b, backend="numpy")
    model.index([list(each) for each in tokens], show_progress=False)

    def search(query: str) -> Found:
        found = model.retrieve([analyze(query)], k=min(DEPTH, len(tokens)), show_progress=False)
        numbers, scores = found.documents[0], found.scores[0]
        return [(int(n), float(score)) for n, score in zip(numbers, scores, strict=True) if score > 0]

    answers = _same_scores(world, settings, search, 1.0)
    yield _pair(world, named("bm25s"), settings, search, answers)


def _tantivy(world: World, tokens: Sequence[Sequence[str]]) -> Source:
    if absent := missing(GROUP, "tantivy"):
        yield absent
        return
    import tantivy

    # Tantivy has no option to set k1 and b.
    settings = Bm25Settings(k1=1.2, b=0.75)
    analyze, names = analyzer(settings), _names(tokens)
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("body", tokenizer_name="whitespace", index_option="freq")
    schema.add_unsigned_field("number", stored=True)
    index = tantivy.Index(schema.build())
    writer = index.writer(num_threads=1)
    for number, each in enumerate(tokens):
        body = " ".join(names[token] for token in each)
        writer.add_document(tantivy.Document(body=[body], number=[number]))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> Found:
        words = " ".join(names[token] for token in analyze(query) if token in names)
        if not words:
            return []
        hits = searcher.search(index.parse_query(words, ["body"]), DEPTH).hits
        return [(searcher.doc(address)["number"][0], float(score)) for score, address in hits]

    ours = _ours(world, settings)
    shared = asked = 0
    for query in world.queries:
        first = {scored.key for scored in ours.search(query, 10)}
        shared += len(first & {world.ids[number] for number, _ in search(query)[:10]})
        asked += len(first)
    answers = f"{shared / asked:.0%} of the first 10 are the same (tantivy rounds text lengths to one byte)"
    yield _pair(world, named("tantivy"), settings, search, answers)


def _rank_bm25(world: World, tokens: Sequence[Sequence[str]]) -> Source:
    if absent := missing(GROUP, "rank-bm25"):
        yield absent
        return
    from rank_bm25 import BM25Okapi

    settings = Bm25Settings(k1=1.5, b=0.75, idf="robertson")
    analyze = analyzer(settings)
    model = BM25Okapi([list(each) for each in tokens], k1=settings.k1, b=settings.b, epsilon=0.0)

    def search(query: str) -> Found:
        return _best(model.get_scores(analyze(query)))

    answers = _same_scores(world, settings, search, settings.k1 + 1, SLOW)
    yield _pair(world, named("rank-bm25"), settings, search, answers, SLOW)


def _fts5(world: World, tokens: Sequence[Sequence[str]]) -> Iterator[Pair]:
    # FTS5 has no option to set k1 and b.
    settings = Bm25Settings(k1=1.2, b=0.75, idf="robertson")
    analyze, names = analyzer(settings), _names(tokens)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE chunks USING fts5(body, tokenize = 'ascii')")
    rows = ((number, " ".join(names[token] for token in each)) for number, each in enumerate(tokens))
    database.executemany("INSERT INTO chunks(rowid, body) VALUES (?, ?)", rows)
    database.execute("INSERT INTO chunks(chunks) VALUES ('optimize')")
    statement = f"SELECT rowid, -rank FROM chunks WHERE chunks MATCH ? ORDER BY rank LIMIT {DEPTH}"

    def search(query: str) -> Found:
        words = " OR ".join(names[token] for token in analyze(query) if token in names)
        return [(int(n), float(score)) for n, score in database.execute(statement, (words,))] if words else []

    answers = _same_scores(world, settings, search, settings.k1 + 1)
    yield _pair(world, f"SQLite-FTS5 {sqlite3.sqlite_version}", settings, search, answers)


def _names(tokens: Sequence[Sequence[str]]) -> dict[str, str]:
    """Map each token to a made-up word that every program treats as one word."""
    vocabulary = dict.fromkeys(token for each in tokens for token in each)
    return {token: f"t{number}" for number, token in enumerate(vocabulary)}
