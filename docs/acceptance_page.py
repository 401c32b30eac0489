"""Write ``acceptance.md`` from the acceptance tests, whose names are the statements that they check.

Run ``python docs/acceptance_page.py`` after you change an acceptance test. A test checks that the page is
up to date.
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

BranchRank implements the requirements in five design documents, numbered 000 to 004, and in a project card,
which summarises the purpose, the parts and the users of the project. Each requirement, scenario and statement
in these documents has a test with the same name. This page lists each statement with its test. `make test`
runs all of these tests.

The documents are inconsistent in two places. Document 000 says that grep results are fused without being
ranked. Document 001 says that grep results are ranked by BM25 and filtered by a percentile. By default,
`hybrid_search` does not rank grep results; with `ranking="bm25"`, it ranks and filters them. Document 003
puts the PageIndex-only retriever out of scope. BranchRank therefore gives `pageindex` no BM25 branch, but
still compares `pageindex` with the other two predictors.

In document 000, the default distance threshold of vector search is 0.5. However, each model has its own scale
of distances. With all-MiniLM-L6-v2, almost no chunk has a distance below 0.5, so vector search with this
threshold would find almost nothing. Therefore `branchrank index` tests the default threshold with queries
made from the corpus's section titles. If the default threshold drops every chunk for most of these queries,
the index stores a calibrated threshold, which is used instead of the default. Search results, `branchrank
settings` and reports show the calibrated threshold. A threshold that a user sets is always used, even if the
user sets the default value 0.5. If the user's threshold drops every chunk, a warning is shown.

The column "interface" lists the interfaces that a test uses: the commands, the Python library, the HTTP
server, the MCP server or the terminal UI.

`python docs/acceptance_page.py` generates this page.
"""

BREAKAGES = """\
## Mutants that these tests detect

`make mutants` changes a copy of the code in one place (a mutant) and runs the tests that are listed for the
mutant. At least one of these tests must fail. This table lists the mutants for the statements above;
`tests/mutants/rooms/` also contains the mutants for individual modules.
"""

#: Name of a class, function or fixture in a test -> the interface that the test uses.
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

#: The title of each requirements document, and the names of the test files for the document.
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

#: Maps a document's number to a note about the document's tests outside ``tests/acceptance``.
BESIDE = {
    "003": "`tests/cli/test_sample.py` runs the commands in document 003 on the bundled sample. "
    "`tests/systems/test_rerank.py` tests reranking with every kind of faulty server, and "
    "`tests/test_bad_input.py` tests invalid input.",
}

#: Headings for the classes whose names can't be split into words automatically.
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
    """Return the text of ``acceptance.md``, with one section per document and one table per requirement."""
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
                heading = ["| statement | interface | test |", "| --- | --- | --- |"]
                parts.append("\n".join([*heading, *rows]) + "\n")
        for number, text in BESIDE.items():
            if f" {number}:" in title:
                parts.append(f"{text}\n")
    parts.append(_breakages())
    return "\n".join(parts)


def _breakages() -> str:
    """Return the table of the mutants that the acceptance tests must detect."""
    sys.path.insert(0, str(TESTS.parent))
    from mutants.rooms.acceptance import MUTANTS

    rows = []
    for mutant in MUTANTS:
        tests = ", ".join(f"`{test.rpartition('::')[2]}`" for test in mutant.tests)
        rows.append(f"| {_words(mutant.name.replace('-', '_'))} | `{mutant.path}` | {tests} |")
    return "\n".join([BREAKAGES, "| mutant | file | detected by |", "| --- | --- | --- |", *rows]) + "\n"


def doors(test: ast.FunctionDef) -> list[str]:
    """Return the interfaces that a test uses, without duplicates, in the order of :data:`DOORS`."""
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    names |= {argument.arg for argument in test.args.args}
    return list(dict.fromkeys(door for name, door in DOORS.items() if name in names))


def _tests(path: Path) -> Iterator[tuple[str, list[ast.FunctionDef]]]:
    """Yield the name of each test class with its tests.

    Tests outside classes come first, with an empty class name.
    """
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
    """Return a name such as ``ChunkHitsBecomeNodes`` or ``chunk_hits_become_nodes`` as words with spaces."""
    found = re.findall(r"[A-Z]+(?=[A-Z][a-z]|_|$)|Bm25|[A-Z]?[a-z]+\d*|[A-Z]|\d+", name)
    words = [
        _NAMES.get(word.lower(), word if word.isupper() and len(word) > 1 else word.lower()) for word in found
    ]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


if __name__ == "__main__":
    (DOCS / "acceptance.md").write_text(acceptance_page(), encoding="utf-8")
