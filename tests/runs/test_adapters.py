"""Every adapter passes the same contract, with the real framework: what it finds, reports and refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from support.commands import invoke, table, write_lines
from support.doc_blocks import blocks
from support.pipelines import FRAMEWORKS, SPENDING, of_nine_documents, of_strings, routed
from support.small_corpus import small_workspace

from branchrank import Run, Workspace
from branchrank.core.errors import BranchRankError, UsageError
from branchrank.runs.adapters import ADAPTERS, adapted, load_retriever
from branchrank.runs.warnings import failures

BOILS, VINEGAR = ("index.md", 3, 3), ("guide/descale.md", 3, 3)
#: The hits of every framework for each case, and for a question that the retriever fails on.
EXPECTED = {
    "text only": [BOILS],
    "text and source": [VINEGAR],
    "text and lines": [VINEGAR],
    "nothing": [],
    "more than k": [BOILS] * 10,
    "duplicates": [BOILS] * 2,
    "unicode": [("wärme.md", 3, 3)],
    "nowhere": [("unplaced", 1, 1)],
    "fails": None,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapters")
    small_workspace(folder)
    (folder / "docs" / "wärme.md").write_text("# Wärme\n\nDer Füllstand – 水位 – steigt.\n", encoding="utf-8")
    gold = {"source_file": "index.md", "answer_line_start": 3, "answer_line_end": 3}
    write_lines(folder / "q.jsonl", [{"id": each, "question": each, **gold} for each in EXPECTED])
    return folder


@pytest.fixture(scope="module")
def run(project: Path) -> Iterator[Run]:
    with Workspace.open(project / "data") as workspace:
        yield workspace.benchmark(
            [(name, make()) for name, make in FRAMEWORKS.items()],
            questions=project / "q.jsonl",
            reports=project / "reports",
        )


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_retriever_answers_every_question_as_its_framework_found_it(run: Run, name: str) -> None:
    rows = {row.question_id: row for row in run.rows if row.predictor == name}
    hits = {
        key: None if row.status == "failed" else [(h.source, h.line_start, h.line_end) for h in row.hits]
        for key, row in rows.items()
    }
    assert hits == EXPECTED
    if name == "haystack":
        assert "failed to run: Component name: 'retriever' Component type: 'Fixed'" in rows["fails"].error
    assert [hit.score for hit in rows["text and source"].hits] == [0.5]
    assert [hit.score for hit in rows["more than k"].hits][:2] == [1, 0.5], "no score: by rank"


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_llm_use_that_is_not_reported_is_not_zero_and_latency_is_measured(run: Run, name: str) -> None:
    [row] = [row for row in table(run.directory / "summary.csv") if row["predictor"] == name]
    assert row["llm"] == "not reported"
    assert row["llm_calls_per_query"] == row["llm_tokens_per_query"] == ""
    assert float(row["latency_p50_ms"]) > 0
    report = (run.directory / "report.md").read_text(encoding="utf-8")
    assert f"not reported: {', '.join(FRAMEWORKS)}" in report


@pytest.mark.parametrize("name", SPENDING)
def test_a_retriever_of_a_store_is_asked_for_k_documents(name: str) -> None:
    thing = of_nine_documents()[name]
    found = adapted(thing)
    assert found is not None
    assert [len(found.retrieve("kettle", k).hits) for k in (7, 9)] == [7, 9]
    own = [getattr(thing, name, None) for name in ("search_kwargs", "similarity_top_k", "top_k")]
    assert {"k": 2} in own or 2 in own, "the user's object is not changed"


def test_llm_calls_that_a_framework_reports_are_counted(project: Path) -> None:
    with Workspace.open(project / "data") as workspace:
        made = workspace.benchmark(
            [(name, make()) for name, make in SPENDING.items()],
            questions=project / "q.jsonl",
            reports=project / "spending",
        )
    for row in table(made.directory / "summary.csv"):
        asked = 9 if row["predictor"] == "langchain" else 8  # the others fail on one question
        assert row["llm"] == "asked"
        assert float(row["llm_calls_per_query"]) == pytest.approx(asked / 9, rel=1e-4)
        assert float(row["llm_tokens_per_query"]) == pytest.approx(15 * asked / 9, rel=1e-4)
    calls = table(made.directory / "llm_calls.csv")
    assert {(each["predictor"], each["model"], each["reported"]) for each in calls} == {
        (name, "asked", "True") for name in SPENDING
    }


def test_without_an_installed_framework_the_error_names_the_extra(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "llama_index.py").write_text("raise ModuleNotFoundError(name='llama_index')")
    monkeypatch.syspath_prepend(tmp_path)
    refused = ask(project, "--predictor", "llamaindex:support.pipelines:llamaindex")
    assert refused.exit_code == 5
    assert "llama-index" in refused.stderr


#: What an adapter cannot use, and why.
UNUSABLE = [
    ("langchain:support.pipelines:haystack", "is a Pipeline, not a LangChain retriever"),
    ("langchain:support.pipelines:missing", "AttributeError"),
    ("langchain:support.pipelines:langchain:k=3", "the adapter langchain has no option 'k'"),
    ("haystack:support.pipelines:haystack:query=writer.text", "no input writer.text"),
    ("haystack:support.pipelines:haystack:documents=ranker", "not from 'ranker'"),
    ("haystack:support.pipelines:haystack:dokuments=ranker", "did you mean `documents`?"),
    ("haystack:support.pipelines:misconnected", "PipelineConnectError: Component 'retriever'"),
    ("haystack:support.pipelines:without_documents", "from no component"),
    ("haystack:support.pipelines:with_another_input", "Missing mandatory input 'language' for component"),
]


@pytest.mark.parametrize(("name", "reason"), UNUSABLE)
def test_what_an_adapter_cannot_use_is_an_error_of_its_user(name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)) as caught:
        load_retriever(name)
    assert caught.value.exit_code == 2


@pytest.mark.full
@pytest.mark.parametrize(("name", "reason"), [UNUSABLE[1], UNUSABLE[-1]])
def test_the_command_refuses_it_before_any_work(project: Path, name: str, reason: str) -> None:
    refused = ask(project, "--predictor", name)
    assert refused.exit_code == 2
    assert reason in refused.stderr


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_list_of_strings_ends_the_run_and_is_named(project: Path, name: str) -> None:
    with (
        Workspace.open(project / "data") as workspace,
        pytest.raises(UsageError, match=r"mine: .* (list of str|list), not a"),
    ):
        workspace.benchmark(
            [("mine", of_strings()[name])], questions=project / "q.jsonl", reports=project / "refused"
        )


def test_a_component_of_haystack_that_does_not_run_is_named() -> None:
    found = adapted(routed())
    assert found is not None
    assert len(found.retrieve("text only", 3).hits) == 1
    with pytest.raises(BranchRankError, match="'retriever' did not"):
        found.retrieve("nothing", 3)


def test_a_text_without_a_place_is_explained(run: Run) -> None:
    hits = {key: str(run.explain(key, ["langchain"])) for key in ("text only", "nowhere")}
    assert "returned text" not in hits["text only"]
    assert "1. no place  0.5" in hits["nowhere"]
    assert "1 returned text: " in hits["nowhere"]
    warning = next(failures(run.rows, run.record.predictors)).words
    assert "1 of 17 hits" in warning
    assert "branchrank explain RUN nowhere" in warning


def test_recognizing_an_object_imports_no_framework() -> None:
    code = "import sys; from branchrank.runs.adapters import adapted; adapted(object()); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"langchain_core", "llama_index", "haystack", "pyterrier", "pandas"} & set(loaded.split())


def ask(project: Path, *words: object) -> Any:
    return invoke("benchmark", "--data-dir", project / "data", "--questions", project / "q.jsonl", *words)


def test_the_adapter_in_the_documentation_works(monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = [each for each in blocks("docs/extending.md", "python") if "ShelfAdapter" in each.text]
    module, search = ModuleType("branchrank_shelf"), ModuleType("shelf.search")
    exec(code.text, module.__dict__)
    book = SimpleNamespace(text="The kettle boils water.", path="index.md", score=2.0)
    search.Searcher = type("Searcher", (), {"look_up": lambda self, question, limit: [book] * limit})
    monkeypatch.setitem(sys.modules, "branchrank_shelf", module)
    monkeypatch.setitem(sys.modules, "shelf.search", search)
    entry = EntryPoint("shelf", "branchrank_shelf:SHELF", "branchrank.adapters")
    monkeypatch.setattr(ADAPTERS, "installed", {"shelf": entry})
    found = adapted(search.Searcher())
    assert found is not None
    assert [hit.source for hit in found.retrieve("kettle", 2).hits] == ["index.md"] * 2
