"""The page of results with an LLM: what is kept of the calls, and that a replay gives its figures.

The documents and the questions are not part of the project. Where they are, their words are looked for in
what is kept, and everything is replayed.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from branchrank import Workspace
from branchrank.search.llm.request import CallResult, LLMReply, LLMRequest, Message

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results" / "llm.md"
KEPT = ROOT / "docs" / "results" / "llm"
BESIDE = ROOT.parent / "shared"
CORPUS = BESIDE / "corpora" / "symfony-docs"
QUESTIONS = BESIDE / "questions" / "symfony-dev.jsonl"
FIELDS = (
    r"[0-9a-f]{64}",  # the digest of the prompt and its parameters
    r"perfect|right-70|random|first-shown|smollm2",
    r"sf-\d{3}",
    r"rerank|tree final|tree step \d+",
    r"ok|timeout|connection|http \d{3}|malformed reply|no known id|empty reply|context overflow",
    r"(s\d{2,3}( s\d{2,3})*)?",
)
#: So many words in a row are a quotation.
WORDS = 8


def calls() -> list[list[object]]:
    return [json.loads(line) for line in (KEPT / "calls.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_call_is_stored_as_only_digest_ids_and_usage() -> None:
    kept = calls()
    assert len(kept) > 1000
    for call in kept:
        texts, numbers = call[: len(FIELDS)], call[len(FIELDS) :]
        for text, pattern in zip(texts, FIELDS, strict=True):
            assert isinstance(text, str)
            assert re.fullmatch(pattern, text), text
        assert len(numbers) == 5
        assert all(isinstance(number, int) for number in numbers), call
    assert [call[0] for call in kept] == sorted({str(call[0]) for call in kept}), "sorted, and each once"


def test_the_page_has_the_figures_and_the_plots() -> None:
    figures = json.loads((KEPT / "figures.json").read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    assert "@" not in re.sub(r"@[15]", "", text), "every place of the template is filled"
    for run in figures.values():
        for row in run["predictors"]:
            head = f"| {row['predictor']} | {row['llm']} |"
            rates = f" {100 * row['strict_hit@1']:.1f} / {100 * row['strict_hit@5']:.1f} "
            assert any(line.startswith(head + rates) for line in text.splitlines()), head
    for plot in re.findall(r"\]\((llm/.*\.svg)\)", text):
        assert (PAGE.parent / plot).read_text(encoding="utf-8").startswith("<svg")


def runs_of_words(text: str) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9]+", text.lower())
    return zip(*(words[start:] for start in range(WORDS)), strict=False)


def quotations(text: str, known: set[tuple[str, ...]]) -> list[str]:
    return [" ".join(run) for run in runs_of_words(text) if run in known]


@pytest.mark.corpora
def test_no_stored_file_quotes_the_documents_or_the_questions() -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"{CORPUS} is not here")
    sources = [
        QUESTIONS,
        *(path for path in CORPUS.rglob("*") if path.suffix in (".rst", ".inc", ".txt", ".md")),
    ]
    assert len(sources) > 500
    known: set[tuple[str, ...]] = set()
    for path in sources:
        known.update(runs_of_words(path.read_text(encoding="utf-8", errors="replace")))
    [quoted] = json.loads(QUESTIONS.read_text(encoding="utf-8").splitlines()[0])["question"].splitlines()
    assert quotations(f"a page that quotes: {quoted}", known), "a quotation would be found"
    files = [PAGE, *KEPT.iterdir()]
    assert len(files) >= 4
    for path in files:
        # The name of SVG's own format is in the documents too.
        text = re.sub(r'xmlns(:\w+)?="[^"]*"', "", path.read_text(encoding="utf-8"))
        assert quotations(text, known) == [], path


def test_calls_are_restored_without_their_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    opened = importlib.import_module("llm_abc").CallFile
    request = LLMRequest(stage="rerank", messages=(Message(role="user", content="first line"),))
    with opened(tmp_path / "c.sqlite") as cassette:
        cassette.put(request, "m", CallResult(reply=LLMReply(text="s01", attempt=2)))
        calls = cassette.calls()
    with opened(tmp_path / "copy.sqlite") as copy:
        copy.restore(calls)
        assert copy.get(request, "m") == calls[0].recorded
        assert (copy.calls(), copy.models()) == (calls, ["m"])
    assert b"first line" not in (tmp_path / "copy.sqlite").read_bytes()


@pytest.mark.corpora
def test_a_replay_without_a_server_reproduces_every_figure(tmp_path: Path) -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"{CORPUS} is not here")
    Workspace.build(CORPUS, tmp_path / "data", embedder="all-MiniLM-L6-v2").close()
    script = ROOT / "benchmarks" / "llm_abc.py"
    done = subprocess.run(
        [sys.executable, script, "replay", tmp_path / "data", QUESTIONS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every figure is reproduced" in done.stdout
