"""The Python examples of the documentation run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from branchrank.bench.predictors import load_class_predictor
from branchrank.index.build import build_index
from branchrank.index.workspace_folder import WorkspaceFolder, configure
from branchrank.records import Question

DOCS = Path(__file__).parents[2] / "docs"


def examples(page: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"(?ms)^```python\n(.*?)^```", text)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents and an indexed workspace, as the reader of an example has it."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Holidays\n\nHow do I write questions? So.\n")
    (tmp_path / "docs" / "b.md").write_text("# Travel\n\nBook early.\n")
    configure(tmp_path / "data", corpus=tmp_path / "docs", settings={"index.embedder": "fake"})
    build_index(WorkspaceFolder.open(tmp_path / "data")).close()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_example_predictor_answers(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "titles.py").write_text(examples("predictors.md")[0])
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.delitem(sys.modules, "titles", raising=False)
    predictor = load_class_predictor("titles:Titles")
    retrieval = predictor.predict(Question(id="q", question="when to travel"), 1)
    assert predictor.name == "titles"
    assert [(hit.source, hit.line_start, hit.line_end) for hit in retrieval.hits] == [("b.md", 1, 3)]


def test_the_library_example_prints_hits(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(examples("predictors.md")[1], "predictors.md", "exec"), {})
    assert capsys.readouterr().out.startswith("a.md 1 3 ")
