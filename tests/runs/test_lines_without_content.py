"""Blank lines, fences and comment delimiters don't count in half and full hits, precision and coverage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import benchmark, invoke, table, write_lines
from support.refinished import refinish

from branchrank import Run
from branchrank.reports.verify import verify

CALL = ["# Guide", "", "Call it:", "", "```python", "run()", "```", ""]
CODE = ["def boil():", '    """Boil the water.', "", "    Wait a minute.", '    """', "    return 1"]
CELL = ["Steep it.\n", "\n", "```\n", "leaf\n", "```"]
BOOK = json.dumps({"cells": [{"cell_type": "markdown", "source": CELL}], "nbformat": 4}, indent=1)
#: For each page its lines, and the first and last line of the gold and of the only hit.
PAGES = {
    "guide.md": ([*CALL, "Then wait."], (3, 8), (3, 6)),
    "kettle.py": (CODE, (2, 5), (2, 4)),
    "tea.html": (["<h1>Tea</h1>", "<p>Brew it.</p>", "<!--", "Ask us.", "-->"], (2, 5), (2, 4)),
    "steep.ipynb": (BOOK.split("\n"), (6, 10), (6, 9)),
    "long.md": ([*CALL, *["More text."] * 492], (3, 8), (1, 500)),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("made")
    (project / "docs").mkdir()
    asked, ranked = [], ""
    for name, (lines, (first, last), (start, end)) in PAGES.items():
        (project / "docs" / name).write_text("\n".join(lines) + "\n")
        span = {"answer_line_start": first, "answer_line_end": last}
        asked.append({"id": name, "question": "?", "source_file": name, **span})
        ranked += f"{name} Q0 {name}:{start}-{end} 1 1 x\n"
    (project / "run.txt").write_text(ranked)
    write_lines(project / "data" / "benchmark" / "questions.jsonl", asked)
    words = ("--data-dir", project / "data", "--embedder", "fake", "--code")
    assert invoke("index", project / "docs", *words).exit_code == 0
    return benchmark(project, "--predictor", f"trec:{project}/run.txt", "--predictor", "bm25")


def rates(run: Path) -> list[float]:
    row, _ = table(run / "summary.csv")
    names = ("strict_hit@1", "half_hit@1", "full_hit@1", "lines_per_hit", "span_precision", "gold_coverage")
    return [float(row[name]) for name in names]


def test_hits_with_all_lines_of_content_are_full_hits(made: Path) -> None:
    precision = (4 + 2 / 495) / 5  # of the 500 lines, 495 have content
    assert rates(made) == pytest.approx([1, 1, 1, (4 + 3 + 3 + 4 + 500) / 5, precision, 1], abs=1e-6)
    assert Run.load(made).summary.iloc[0]["full_hit@1"] == 1


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [
        ("rows.jsonl", '"blank_lines":2', '"blank_lines":1', "hit 1: blank_lines is 1, should be 2"),
        (
            "gold.jsonl",
            "[4,5,7,8]",
            "[3,4,5,7,8]",
            "gold.jsonl: question 'guide.md': differs from the corpus",
        ),
    ],
)
def test_other_lines_than_those_of_the_corpus_are_found(
    made: Path, name: str, old: str, new: str, found: str
) -> None:
    text = (made / name).read_text()
    assert old in text
    (made / name).write_text(text.replace(old, new, 1))
    refinish(made)
    findings = verify(made, corpus=made.parents[1] / "docs").findings
    (made / name).write_text(text)
    assert any(found in str(each) for each in findings), findings
