"""Writes ``acceptance.md`` from the acceptance tests, whose names are the statements that they hold.

Run ``python docs/acceptance_page.py`` after a change of them; a test compares the page with what this makes.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
TESTS = DOCS.parent / "tests" / "acceptance"

HEAD = """\
# Acceptance tests

BranchRank was written to five documents and a card. Each requirement, scenario and statement of theirs has
a test named after it. This page maps one to the other; `make test` runs them all.

Where the documents disagree: raw grep in the fusion (document 000) is what `hybrid_search` does, and the
BM25 ranking and percentile filter of document 001 are its option `ranking="bm25"`. Document 003 leaves the
PageIndex-only retriever out of scope; that means that it gets no BM25 branch, while the predictor itself is
one of the three compared.

The distance threshold of document 000 is 0.5 by default. Distances have another scale in each model:
all-MiniLM-L6-v2 puts hardly any chunk below 0.5, which would leave vector search empty. So an index measures
the default with queries made from its own section titles. Where it finds no chunk for most of them, the index
keeps a calibrated value. It is used in place of the default, and every answer, `branchrank settings` and
reports name it. A number that somebody gives is used as it is, 0.5 too, with a warning where it drops every
chunk.

The column "through" names the doors that a test goes through: the commands, the Python library, the HTTP
server, the MCP server, the terminal UI.

This page is made by `python docs/acceptance_page.py`.
"""

BREAKAGES = """\
## What these tests catch

`make mutants` breaks a copy of the product in one way at a time, and each must make its test fail. These are
the breakages for the statements above; those of single modules are in `tests/mutants/rooms/`.
"""

#: The name that a test uses -> the door that it opens (``tests/support/front_doors.py``).
DOORS = {
    "Command": "command",
    "benchmark": "command",
    "program": "command",
    "made": "command",
    "make_indexed": "command",
    "Library": "library",
    "Http": "HTTP",
    "Mcp": "MCP",
    "Tui": "terminal UI",
}

#: Where the tests of a document are, and what it is called.
DOCUMENTS = (
    (
        "Document 000: hybrid retrieval tools",
        ("test_document_000_hybrid_retrieval.py", "test_document_000_threshold.py"),
    ),
    ("Document 001: BM25 ranking of grep results", ("test_document_001_bm25_grep.py",)),
    ("Document 002: hybrid search in Qdrant", ("test_document_002_qdrant.py",)),
    (
        "Document 003: the hybrid retrieval plan",
        ("test_document_003_plan.py", "test_document_003_llm.py"),
    ),
    ("Document 004: search in SQLite", ("test_document_004_sqlite_search.py",)),
    ("The card", ("test_card.py",)),
)

#: Further tests that hold a document's statements, by the document's number.
BESIDE = {
    "003": "The document's command lines, word for word over the bundled sample: `tests/cli/test_sample.py`. "
    "Reranking against every kind of faulty server: `tests/systems/test_rerank.py`. Bad input: "
    "`tests/test_bad_input.py`.",
}

#: Headings of classes whose names don't split into words.
HEADINGS = {
    "TestStageAVectorShortlist": "Stage A: vector shortlist",
    "TestStageBTreeExpansion": "Stage B: tree expansion",
    "TestStageCLLMFinalRerank": "Stage C: LLM final rerank",
}

_NAMES = {
    "bm25": "BM25",
    "rrf": "RRF",
    "llm": "LLM",
    "cli": "CLI",
    "csv": "CSV",
    "api": "API",
    "http": "HTTP",
    "fts5": "FTS5",
    "sqlite": "SQLite",
    "bm25s": "bm25s",
    "qdrant": "Qdrant",
    "redis": "Redis",
    "ollama": "Ollama",
    "chroma": "Chroma",
    "pageindex": "PageIndex",
    "coderankembed": "CodeRankEmbed",
    "markdown": "Markdown",
}


def acceptance_page() -> str:
    """The page: a section per document, a table per requirement."""
    parts = [HEAD]
    for title, files in DOCUMENTS:
        parts.append(f"## {title}\n")
        for file in files:
            if not (TESTS / file).exists():
                continue
            parts.append(f"In `tests/acceptance/{file}`:\n")
            for requirement, tests in _tests(TESTS / file):
                if requirement:
                    parts.append(f"### {HEADINGS.get(requirement) or _words(requirement[4:])}\n")
                rows = [
                    f"| {_statement(test.name)} | {', '.join(doors(test))} | `{test.name}` |"
                    for test in tests
                ]
                heading = ["| statement | through | test |", "| --- | --- | --- |"]
                parts.append("\n".join([*heading, *rows]) + "\n")
        for number, text in BESIDE.items():
            if f" {number}:" in title:
                parts.append(f"{text}\n")
    parts.append(_breakages())
    return "\n".join(parts)


def _breakages() -> str:
    """The table of the deliberate breakages that these tests must catch."""
    sys.path.insert(0, str(TESTS.parent))
    from mutants.rooms.acceptance import MUTANTS

    rows = []
    for mutant in MUTANTS:
        tests = ", ".join(f"`{test.rpartition('::')[2]}`" for test in mutant.tests)
        rows.append(f"| {_words(mutant.name.replace('-', '_'))} | `{mutant.path}` | {tests} |")
    return "\n".join([BREAKAGES, "| breakage | file | caught by |", "| --- | --- | --- |", *rows]) + "\n"


def doors(test: ast.FunctionDef) -> list[str]:
    """The doors that a test goes through, in the order of :data:`DOORS`, each once."""
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    names |= {argument.arg for argument in test.args.args}
    return list(dict.fromkeys(door for name, door in DOORS.items() if name in names))


def _tests(path: Path) -> Iterator[tuple[str, list[ast.FunctionDef]]]:
    """Each class with its tests, in the order of the file; tests outside a class come first, unnamed."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    alone = _functions(body)
    if alone:
        yield "", alone
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield node.name, _functions(node.body)


def _functions(body: list[ast.stmt]) -> list[ast.FunctionDef]:
    return [node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def _statement(name: str) -> str:
    words = name.removeprefix("test_")
    return "The requirement as a whole" if words == "requirement" else _words(words)


def _words(name: str) -> str:
    """``ChunkHitsBecomeNodes`` or ``chunk_hits_become_nodes`` as a person writes it."""
    found = re.findall(r"[A-Z]+(?=[A-Z][a-z]|_|$)|Bm25|[A-Z]?[a-z]+\d*|[A-Z]|\d+", name)
    words = [
        _NAMES.get(word.lower(), word if word.isupper() and len(word) > 1 else word.lower()) for word in found
    ]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


if __name__ == "__main__":
    (DOCS / "acceptance.md").write_text(acceptance_page(), encoding="utf-8")
