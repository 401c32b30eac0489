"""Queries, paths, filters and rankings: what is typed into a search."""

from __future__ import annotations

import csv
import math
import re
import unicodedata
from collections.abc import Iterable
from io import StringIO
from itertools import pairwise
from typing import get_args

from support.small_index import DOCUMENTS

from branchrank.core.io.printable import safe, safe_line
from branchrank.core.io.table import csv_cell, table_csv, text_of
from branchrank.core.records import Hit, Scored
from branchrank.core.spec import Fuse, FusionMethod
from branchrank.questions.anchoring import typed_span
from branchrank.scoring.measures import parse_measure
from branchrank.search.files.grep_search import Grep, extract_terms
from branchrank.search.files.read_file import FileReader
from branchrank.search.ranking.fusion import fuse
from branchrank.search.systems.query import read_filters
from fuzz.target import Target, never_refused, require, seeds
from fuzz.world import CANARY, index, put, scratch, workspace

QUERIES = (
    b"how do I clear the cache",
    b'"cache:clear" --no-warmup ChainAdapter',
    b"HttpClient::retry() a->b @name path/to/file.rst v2.1 snake_case",
    b"NEAR(cache clear, 2) AND NOT pool* OR title:x ^y",
    "wärme “quoted” ‘x’ don't \u00e9\u00e8 漢字 ſtraße İstanbul K".encode(),
    b"the of and",
)
SYSTEMS = ("local", "bm25", "grep", "sqlite", "dense")
_WORD = re.compile(r"\w+")
MARKS = "cache caſhe CACHE K k K é E\u0301 İ i ı ß SS ﬁ µ μ ς σ Σ ǅ"


def text_of_bytes(content: bytes) -> str:
    """Any text: an undecodable byte becomes a lone surrogate, as in an argument of a command."""
    return content.decode("utf-8", "surrogateescape")


def fts5(content: bytes) -> None:
    """No query is a syntax error; scores are finite, in 0..1, and descend."""
    query = text_of_bytes(content)
    table = index().open_fts5()
    try:
        with never_refused():
            found = table.matches(query, 5)
            kept = table.bm25(query, list(index().chunks))
    finally:
        table.close()
    scores = [match.score for match in found]
    require(all(0 <= score <= 1 for score in scores), f"scores {scores}")
    require(all(a >= b for a, b in pairwise(scores)), f"not sorted: {scores}")
    require(len({match.key for match in found}) == len(found), "a chunk is there twice")
    require(all(math.isfinite(score) and score >= 0 for score in kept.values()), f"BM25 {kept}")


def words(content: bytes) -> None:
    """BM25: finite scores above 0 that descend."""
    found = index().bm25_chunks.search(text_of_bytes(content), 5)
    scores = [score for _, score in found]
    require(all(0 < score < math.inf for score in scores), f"scores {scores}")
    require(all(a >= b for a, b in pairwise(scores)), f"not sorted: {scores}")


def grep(content: bytes) -> None:
    """The lines that grep finds are those that Python's ``re`` finds with the terms' patterns."""
    query = text_of_bytes(content)
    root = scratch() / "grep"
    if not root.exists():
        for source, text in (DOCUMENTS | {"marks.md": "\n".join(MARKS.split()) + "\n"}).items():
            put(f"grep/{source}", text.encode())
    with never_refused():
        found = Grep(root, [*DOCUMENTS, "marks.md"], context_lines=0).search(query, limit=None)
    terms = extract_terms(query)
    lines = {path.relative_to(root).as_posix(): path.read_text().split("\n") for path in root.rglob("*.*")}
    for passage in found.passages:
        text = "\n".join(lines[passage.source][passage.line_start - 1 : passage.line_end])
        require(passage.text == text, f"{passage.span.citation} is not {passage.text!r}")
        require(math.isfinite(passage.score) and passage.score >= 0, f"score {passage.score}")
    # Cases of letters beyond ASCII differ between the engines' versions of Unicode.
    if not query.isascii() or found.notices:
        return
    pattern = re.compile("|".join(term.pattern for term in terms) or "(?!)", re.IGNORECASE)
    wanted = {
        (source, number)
        for source, each in lines.items()
        for number, line in enumerate(each, start=1)
        if line.isascii() and pattern.search(line)
    }
    matched = {
        (passage.source, number)
        for passage in found.passages
        for number in passage.matched
        if lines[passage.source][number - 1].isascii()
    }
    require(matched == wanted, f"grep {sorted(matched)}, re {sorted(wanted)}")


def in_their_lines(hits: Iterable[Hit]) -> None:
    """Every hit's text is its lines, and its plain text has no word that they lack."""
    for hit in hits:
        require(hit.source in DOCUMENTS, f"there is no file {hit.source}")
        lines = DOCUMENTS[hit.source].split("\n")[hit.line_start - 1 : hit.line_end]
        require(hit.text == "\n".join(lines), f"{hit.id} is not its lines")
        lacking = set(_WORD.findall(hit.plain)) - set(_WORD.findall("\n".join(lines)))
        require(not lacking, f"{hit.id}: {sorted(lacking)} are not in its lines")
        require(math.isfinite(hit.score), f"{hit.id} has the score {hit.score}")


def retrieve(content: bytes) -> None:
    """Every system answers every query with distinct hits, each exactly the lines of its file."""
    query = text_of_bytes(content[1:])
    system = SYSTEMS[content[0] % len(SYSTEMS)] if content else SYSTEMS[0]
    hits = workspace().retrieve(query, system, 5).hits
    in_their_lines(hits)
    require(len({hit.id for hit in hits}) == len(hits), "a hit is there twice")


def read_file(content: bytes) -> None:
    """Only indexed files are read, and the secret beside the corpus never is."""
    root = workspace().folder.corpus_root
    text = FileReader(root, DOCUMENTS).text(text_of_bytes(content))
    require(CANARY not in text, "the secret was read")
    require(text in DOCUMENTS.values(), "a file that is not indexed was read")


def filters(content: bytes) -> None:
    """Filters of a query; admitted documents are documents."""
    found = read_filters([line for line in text_of_bytes(content).split("\n") if line])
    for each in found:
        require(each.key in ("file_path", "source") and each.pattern != "", f"{each}")
        for source in DOCUMENTS:
            each.admits(source)


def measure(content: bytes) -> None:
    """The name of a measure is refused, or names itself."""
    found = parse_measure(text_of_bytes(content))
    require(parse_measure(str(found)) == found, f"{found} is read as another measure")


def lines(content: bytes) -> None:
    """Line numbers."""
    span = typed_span("page.md", text_of_bytes(content))
    require(1 <= span.line_start <= span.line_end, str(span))


def fused(content: bytes) -> None:
    """Fusions of two or three lists of numbers: finite scores that descend, every key once."""
    branches: dict[str, list[Scored]] = {}
    for number, line in enumerate(content.split(b"\n")[:3]):
        entries = []
        for place, word in enumerate(line.split()[:50]):
            key, _, value = word.decode("utf-8", "replace").partition(":")
            try:
                score = float(value)
            except ValueError:
                score = float(place)
            if score == 0 or 1e-100 < abs(score) < 1e100:
                entries.append(Scored(key, score))
        branches[f"b{number}"] = sorted(entries, key=lambda entry: -entry.score)
    keys = {entry.key for entries in branches.values() for entry in entries}
    for name in get_args(FusionMethod):
        if name == "none":
            continue
        ranking = fuse(branches, Fuse(method=name), {}, shares=["b0"])
        require(set(ranking.ids) == keys and len(ranking) == len(keys), f"{name} changed the keys")
        require(all(map(math.isfinite, ranking.scores)), f"{name}: {ranking.scores}")
        require(all(a >= b for a, b in pairwise(ranking.scores)), f"{name} is not sorted")


def printable(content: bytes) -> None:
    """Text for a terminal has no control characters and can be encoded; CSV is read back as it was."""
    text = text_of_bytes(content)
    for made, allowed in ((safe(text), "\n\t"), (safe_line(text), "")):
        made.encode()
        for character in made:
            category = unicodedata.category(character)
            require(character in allowed or category not in ("Cc", "Cf", "Cs", "Co", "Cn"), repr(character))
    plain = text.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n")
    written = table_csv(["a", "b"], [(plain, "x"), ("y", plain)])
    rows = list(csv.reader(StringIO(written)))
    if "\0" not in plain:
        require(
            [[text_of(each) for each in row] for row in rows[1:]] == [[plain, "x"], ["y", plain]], written
        )
    require(csv_cell(plain)[:1] not in ("=", "+", "-", "@", "\t"), "a formula")


PATHS = (b"cache.rst", b"http/client.rst", b"http/../cache.rst", b"./cache.rst")

TARGETS = (
    Target("fts5-query", fts5, seeds(*QUERIES)),
    Target("bm25-query", words, seeds(*QUERIES)),
    Target("grep-query", grep, seeds(*QUERIES)),
    Target("retrieve", retrieve, lambda: tuple(bytes([n % 5]) + query for n, query in enumerate(QUERIES))),
    Target("read-file", read_file, seeds(*PATHS)),
    Target(
        "filters", filters, seeds(b"file_path=http/*\nsource=*.rst", b"source=cache.rst", b"file_path=[!a]*")
    ),
    Target("measure", measure, seeds(b"nDCG@10", b"hit@5", b"Success(rel=2)@5", b"RBP(p=0.8)", b"RR")),
    Target("lines", lines, seeds(b"5-8", b" 7 ")),
    Target("fusion", fused, seeds(b"a:3 b:2.5 c:1\nb:0.9 d:0.9\na:0 c:-1", b"x:1e-300 y:1e-320\ny:1e90")),
    Target(
        "printable", printable, seeds(b"plain\x1b[31m red\n=1+1", "\u202eabc\u2066 \U0001f469\u200d".encode())
    ),
)
