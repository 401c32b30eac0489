"""Predictors from outside: a user's own class, and any endpoint that answers ``POST /retrieve``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.commands import QUESTIONS as SAMPLE
from support.commands import ROOT, benchmark, invoke, json_lines, make_project, table, write_lines
from support.loopback import Reply, Request, answering
from support.predictors import passage

import branchrank
from branchrank import Workspace
from branchrank.core.errors import BranchRankError, UsageError
from branchrank.core.records import UNPLACED, Hit, Passage, Question, Span
from branchrank.reports.recommendation import cautions
from branchrank.runs.bench.answering import answer
from branchrank.runs.bench.predictors import ApiPredictor, ClassPredictor

HIT = {"source": "install.rst", "line_start": 14, "line_end": 15, "text": "Stop the daemon", "score": 0.5}
QUESTION = Question(id="upgrade", question="how do I upgrade", answerable=False)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("predictors"))


def test_a_user_class_runs_beside_the_built_in_systems(project: Path) -> None:
    made = benchmark(project, "--predictor", "local", "--predictor", "support.predictors:WholePages")
    local, own = table(made / "summary.csv")
    assert (local["predictor"], own["predictor"], own["llm"]) == ("local", "whole-pages", "not reported")
    assert own["questions"] == local["questions"] == "8"
    assert float(own["lines_per_hit"]) == 20
    assert float(own["strict_hit@1"]) == pytest.approx(3 / 7, abs=1e-6), "one of them by its quote"
    assert float(own["relaxed_hit@1"]) == pytest.approx(3 / 7, abs=1e-6)
    assert (local["altered_hits"], own["altered_hits"]) == ("0", "8")


def test_a_question_that_a_class_fails_on_counts_as_a_miss(project: Path) -> None:
    made = benchmark(project, "--predictor", "support.predictors:Failing")
    [summary] = table(made / "summary.csv")
    assert (summary["predictor"], summary["questions"], summary["failures"]) == (
        "support.predictors:Failing",
        "8",
        "2",
    )
    rows = {row["question_id"]: row for row in json_lines(made / "rows.jsonl")}
    assert rows["temperature"]["status"] == "failed"
    assert rows["temperature"]["error"] == "RuntimeError: =cmd|'/c calc'!A1"
    outcome = {row["question_id"]: row["outcome"] for row in table(made / "questions.csv")}
    assert outcome["temperature"] == "failed"
    # Right on two of seven answerable questions, the failed ones counted.
    assert float(summary["strict_hit@1"]) == pytest.approx(2 / 7, abs=1e-6)


def test_the_example_in_the_docs_is_the_example_file() -> None:
    page = (ROOT / "docs" / "predictors.md").read_text(encoding="utf-8")
    block = re.findall(r"(?ms)^```python\n(.*?)^```", page)[0]
    assert block == (ROOT / "examples" / "titles.py").read_text(encoding="utf-8")


def test_the_example_predictor_can_be_benchmarked(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    made = benchmark(project, "--predictor", "titles:Titles", reports=tmp_path)
    [summary] = table(made / "summary.csv")
    assert summary["predictor"] == "titles"
    assert 0 < float(summary["relaxed_hit@5"]) <= 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_module:Class", "No module named"),
        pytest.param("support.predictors:NoSuchClass", "no attribute", marks=pytest.mark.full),
        ("support.predictors:Broken", "OSError: no such model"),
        ("support.predictors:NoRetrieve", "has no method retrieve"),
        pytest.param("support.predictors:", "AttributeError", marks=pytest.mark.full),
        ("langchian:support.pipelines:langchain", "did you mean `langchain`?"),
        pytest.param("haystack:rag", "the module is missing", marks=pytest.mark.full),
        pytest.param(":Class", "ValueError: Empty module name", marks=pytest.mark.full),
    ],
)
def test_an_invalid_predictor_class_is_refused_before_any_work(
    project: Path, tmp_path: Path, name: str, reason: str
) -> None:
    result = invoke("benchmark", "--data-dir", project / "data", "--reports", tmp_path, "--predictor", name)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert "PYTHONPATH" in result.stderr or "PREFIX:MODULE:NAME" in result.stderr
    assert list(tmp_path.iterdir()) == []


class Returning:
    """Returns what it is told to."""

    def __init__(self, returned: object) -> None:
        self.returned = returned

    def retrieve(self, query: str, k: int) -> object:
        return self.returned


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (None, "NoneType, not a list"),
        ([passage("a.md", 5, 4)], "lines 5..4 are not a valid span"),
        ([passage("a.md", 0, 4)], "lines 0..4 are not a valid span"),
        ([passage("a.md", "one", 4)], "invalid literal"),
        ([Passage(text="tea", source=Path("a.md"))], "PosixPath"),
        ([passage("a.md", 1, 4, score="high")], "float"),
        ([passage("a.md", 1, 4, score=None)], "float"),
        ([passage(Path("a.md"), 1, 4)], ""),
        ([passage("a\ud800.md", 1, 4)], "surrogates"),
        ([passage("a.md", 1, 4, text=b"bytes")], ""),
    ],
)
def test_a_hit_that_cannot_be_stored_ends_the_run_with_an_error(returned: object, reason: str) -> None:
    with pytest.raises(UsageError, match="retrieve\\(\\) returned") as caught:
        ClassPredictor("own", Returning(returned)).predict(QUESTION, 5)
    assert reason in caught.value.message


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf"), np.float32("nan")])
def test_the_rank_counts_where_a_score_is_not_finite(score: float) -> None:
    own = [
        Passage(text="tea", score=score),
        msgspec.structs.replace(passage("a.md", 1, 4, score=score), distance=float("nan")),
        passage("a.md", 5, 6, score=np.float64(9)),
    ]
    first, second, third = ClassPredictor("own", Returning(own)).predict(QUESTION, 5).hits
    assert (first.text, first.score) == ("tea", 1.0)
    assert (second.line_start, second.score, second.distance) == (1, 0.5, None)
    assert (third.line_start, third.score) == (5, 9.0)


def test_a_hit_with_a_huge_line_number_fails_only_its_question(endpoint: Endpoint) -> None:
    endpoint.answer = lambda body: hits({**HIT, "line_end": 1_000_000_000})
    for predictor in (
        ClassPredictor("own", Returning([passage("a.md", 1, 10**9)])),
        ApiPredictor(endpoint.url),
    ):
        row = answer(predictor, QUESTION, 5)
        assert (row.status, row.hits) == ("failed", ())
        assert "1000000000" in row.error
        assert "at most 10000000" in row.error
    assert endpoint.url in row.error
    [kept] = ClassPredictor("own", Returning([passage("a.md", 1, 10**7)])).predict(QUESTION, 5).hits
    assert kept.line_end == 10**7


def test_numpy_numbers_and_iterators_are_accepted() -> None:
    hit = passage("a.md", np.int64(2), np.int32(3), score=np.float32(0.5))
    [kept] = ClassPredictor("own", Returning(iter([hit]))).predict(QUESTION, 5).hits
    assert kept == passage("a.md", 2, 3, score=0.5)
    assert (type(kept.line_start), type(kept.score)) == (int, float)


PAGE = "guide/brewing.md"
CHEATS = {
    "heading": [passage(PAGE, 1, 1, "=== the page ===")],
    "endless": [passage(PAGE, 1, 1_000_000)],
    "silent": [passage(PAGE, 1, 20, "")],
    "elsewhere": [passage("guide/none.md", 1, 2)],
}


def test_the_text_of_a_hit_is_what_its_lines_hold(project: Path, tmp_path: Path) -> None:
    page = (project / "docs" / PAGE).read_text(encoding="utf-8")

    def cheat(name: str) -> Callable[[str, int], list[Hit]]:
        def retrieve(query: str, k: int) -> list[Hit]:
            return [
                msgspec.structs.replace(hit, text=hit.text and page, plain=hit.text and page)
                for hit in CHEATS[name]
            ]

        retrieve.__name__ = name
        return retrieve

    with Workspace.open(project / "data") as workspace:
        run = workspace.benchmark(["bm25", *map(cheat, CHEATS)], latency_sample=4, reports=tmp_path)
    rows = {row["predictor"]: row for row in run.summary.to_dict("records")}
    quoted = {row.predictor: row for row in run.rows if row.question_id == "herbal"}
    assert quoted["heading"].hits[0].gold is None, "the quote is in the page, and not in line 1"
    assert quoted["silent"].hits[0].gold == 0, "the quote is read from the lines"
    assert [rows[name]["altered_hits"] for name in ("bm25", "heading", "silent")] == [0, 8, 8]
    assert [rows[name]["failures"] for name in rows] == [0, 0, 8, 0, 8]
    assert f"lines 1-1000000 of {PAGE}" in quoted["endless"].error
    assert quoted["endless"].error.endswith(f" {len(page.splitlines())} lines")
    assert "guide/none.md" in quoted["elsewhere"].error
    assert rows["endless"]["timed_queries"] == 0
    report = (run.directory / "report.md").read_text(encoding="utf-8")
    assert "altered: hits" in report
    assert "heading: the text of 8 hits" in report


def test_a_window_that_overlaps_the_linking_section_is_removed_and_counted(
    project: Path, tmp_path: Path
) -> None:
    span = {"source_file": PAGE, "line_start": 1, "line_end": 5}
    questions = write_lines(
        tmp_path / "mined.jsonl",
        [{**line, "excluded_spans": [span]} for line in SAMPLE if line["id"] == "upgrade"],
    )

    def windows(query: str, k: int) -> list[Hit]:
        return [passage(PAGE, 4, 20, ""), passage(PAGE, 6, 20, ""), passage("install.rst", 1, 15, "")][:k]

    with Workspace.open(project / "data") as workspace:
        run = workspace.benchmark([windows, "bm25"], questions=questions, latency_sample=0, reports=tmp_path)
    own, _ = run.rows
    assert [(hit.source, hit.line_start) for hit in own.hits] == [(PAGE, 6), ("install.rst", 1)]
    assert list(run.summary["excluded_hits"]) == [1, 0]
    assert "removed: hits removed" in (run.directory / "report.md").read_text(encoding="utf-8")
    assert invoke("show", run.directory).stdout.count("removed: hits removed") == 1


RIGHT = "Brewing > Steeping time\n\nThree minutes is the default. Use brew.seconds to change it."


def test_texts_without_lines_are_placed_in_the_corpus(
    project: Path, endpoint: Endpoint, tmp_path: Path
) -> None:
    questions = tmp_path / "questions.jsonl"
    gold = {"source_file": PAGE, "answer_line_start": 12, "answer_line_end": 12}
    questions.write_text(json.dumps({"id": "q", "question": "how long does tea steep", **gold}) + "\n")

    def texts(query: str, k: int) -> list[object]:
        return ["Coffee is ground in the mill of the house.", Passage(text=RIGHT, source="/srv/docs/" + PAGE)]

    def longer(query: str, k: int) -> list[object]:
        return [Passage(text=RIGHT, source=f"docs/{PAGE}", line_start=10, line_end=12)]

    def first(query: str, k: int) -> list[object]:
        return [Passage(text=RIGHT, source="nowhere.md"), "Every word here is from nowhere at all."]

    def silent(query: str, k: int) -> list[object]:
        return []

    silent.llm = "none"
    endpoint.answer = lambda body: hits({"text": RIGHT, "line_start": None})
    predictors = [texts, longer, first, ApiPredictor(endpoint.url), silent]
    with Workspace.open(project / "data") as workspace:
        run = workspace.benchmark(predictors, questions=questions, latency_sample=1, reports=tmp_path)
        anchor = workspace.locate(RIGHT)
        assert anchor is not None
        assert (anchor.source, anchor.line_start, anchor.line_end) == (PAGE, 10, 12)
        assert workspace.locate("Every word here is from nowhere at all.") is None
    assert branchrank.locate(RIGHT, project / "docs") == anchor
    rows = {row.predictor: row for row in run.rows}
    spans = {name: [(hit.source, hit.line_start) for hit in row.hits] for name, row in rows.items()}
    assert spans == {
        "texts": [(UNPLACED, 1), (PAGE, 10)],
        "longer": [(PAGE, 10)],
        "first": [(PAGE, 10), (UNPLACED, 2)],
        "api": [(PAGE, 10)],
        "silent": [],
    }
    frame = run.summary.set_index("predictor")
    assert list(frame["strict_hit@1"]) == [0, 1, 1, 1, 0], "a text without a place holds its rank"
    assert list(frame["missing_hits"]) == [1, 0, 1, 0, 0]
    assert list(frame["lines_per_hit"])[:4] == [3, 3, 3, 3]
    assert list(frame["llm"]) == ["not reported"] * 4 + ["none"]
    warned = [caution for caution in cautions(run) if caution.kind == "failures"]
    assert any("1 of 2 hits" in caution.words for caution in warned)
    assert [caution.predictor for caution in warned if "named a source" in caution.words] == ["first"]
    assert [caution.predictor for caution in warned if "no hits" in caution.words] == ["silent"]
    assert run.verify().findings == ()


def test_texts_after_the_first_k_are_not_placed() -> None:
    assert len(ClassPredictor("own", Returning(["tea"] * 30)).predict(QUESTION, 5).hits) == 5


def test_excluded_hits_are_replaced_by_the_next() -> None:
    class Many:
        def retrieve(self, query: str, k: int):
            return [passage("a.md", line, line) for line in range(1, k + 1)]

    excluded = Question(
        id="q",
        question="?",
        answerable=False,
        excluded_spans=(Span(source="a.md", line_start=1, line_end=4),),
    )
    hits = ClassPredictor("many", Many()).predict(excluded, 3).hits
    assert [hit.line_start for hit in hits] == [5, 6, 7]
    assert len(ClassPredictor("many", Many()).predict(QUESTION, 3).hits) == 3


Answer = Callable[[dict[str, Any]], tuple[int, bytes, dict[str, str]]]


class Endpoint:
    """Answers ``POST`` requests with ``answer``; keeps their bodies."""

    def __init__(self) -> None:
        self.answer: Answer = lambda body: (200, b"{}", {})
        self.asked: list[dict[str, Any]] = []
        self.tokens: list[str | None] = []
        self.url = ""

    def reply(self, request: Request) -> Reply:
        self.asked.append(request.json)
        self.tokens.append(request.headers.get("authorization"))
        status, content, headers = self.answer(request.json)
        return Reply(content, status, headers)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    with answering(made.reply) as url:
        made.url = f"{url}/retrieve"
        yield made


def hits(*given: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
    return 200, json.dumps({"hits": given, "took_ms": 3}).encode(), {}


def test_a_token_goes_to_the_endpoint_as_a_bearer_token(endpoint: Endpoint) -> None:
    endpoint.answer = lambda body: hits(HIT)
    ApiPredictor(endpoint.url).predict(QUESTION, 1)
    ApiPredictor(endpoint.url, token="s3cret").predict(QUESTION, 1)
    assert endpoint.tokens == [None, "Bearer s3cret"]


def test_an_endpoint_is_called_and_its_hits_are_read(endpoint: Endpoint) -> None:
    endpoint.answer = lambda body: hits({**HIT, "id": "x", "node_id": "install.rst#upgrading", "new": 1}, HIT)
    answer = ApiPredictor(endpoint.url, target="hybrid").predict(QUESTION, 1)
    assert endpoint.asked == [{"query": "how do I upgrade", "top_k": 1, "predictor": "hybrid"}]
    [hit] = answer.hits
    assert (hit.id, hit.source, hit.line_start, hit.line_end, hit.text, hit.score, hit.node_id) == (
        "x",
        "install.rst",
        14,
        15,
        "Stop the daemon",
        0.5,
        "install.rst#upgrading",
    )
    ApiPredictor(endpoint.url).predict(QUESTION, 4)
    assert endpoint.asked[-1] == {"query": "how do I upgrade", "top_k": 4}


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"{}", {}),
        (200, b"no json", {}),
        (200, b'{"hits": [{"source": "\xff"}]}', {}),
        (200, b'{"results": []}', {}),
        (200, json.dumps({"hits": [{"source": "a.md", "line_start": "x", "line_end": 2}]}).encode(), {}),
        (200, json.dumps({"hits": [{"source": "a.md", "line_start": 3, "line_end": 2}]}).encode(), {}),
        (200, json.dumps({"hits": [{"source": "a.md", "text": 5}]}).encode(), {}),
        (302, b"", {"Location": "http://127.0.0.1:1/elsewhere"}),
    ],
    ids=["error", "no JSON", "no UTF-8", "no hits", "no lines", "no span", "text is no text", "redirect"],
)
def test_an_invalid_answer_is_an_error_that_names_the_endpoint(endpoint: Endpoint, answer) -> None:
    endpoint.answer = lambda body: answer
    with pytest.raises(BranchRankError, match=re.escape(endpoint.url)) as caught:
        ApiPredictor(endpoint.url).predict(QUESTION, 1)
    assert "endpoint" in caught.value.remedy
    assert len(endpoint.asked) == 1, "no redirect is followed"


def test_an_endpoint_is_benchmarked_and_its_failures_count_as_misses(
    project: Path, endpoint: Endpoint
) -> None:
    endpoint.answer = lambda body: hits(HIT) if "upgrade" in body["query"] else (500, b"{}", {})
    made = benchmark(
        project, "--predictor", "api", "--api-endpoint", endpoint.url, reports=project / "api-reports"
    )
    [summary] = table(made / "summary.csv")
    assert (summary["predictor"], summary["failures"], summary["questions"]) == ("api", "7", "8")
    assert float(summary["strict_hit@1"]) == pytest.approx(1 / 7, abs=1e-6)


@pytest.mark.parametrize("answer", [(422, b"{}", {}), (404, b"", {}), (200, b"no json", {}), None])
def test_an_unusable_endpoint_is_refused_before_any_work(
    project: Path, endpoint: Endpoint, tmp_path: Path, answer: Any
) -> None:
    endpoint.answer = lambda body: answer
    url = endpoint.url if answer else "http://127.0.0.1:9/retrieve"
    words = ("--predictor", "api", "--api-endpoint", url, "--reports", tmp_path / "reports")
    result = invoke("benchmark", "--data-dir", project / "data", *words)
    assert result.exit_code == 2
    assert f"--api-endpoint {url}" in result.stderr
    assert not (tmp_path / "reports").exists()


def test_an_endpoint_with_a_password_is_refused() -> None:
    with pytest.raises(UsageError, match="password") as raised:
        ApiPredictor("http://me:hunter22@127.0.0.1:9/retrieve")
    assert "hunter22" not in str(raised.value)


def test_error_messages_of_a_class_are_stored_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-1234")

    class Telling:
        def retrieve(self, query: str, k: int) -> list[Hit]:
            raise RuntimeError("sk-planted-1234 refused by https://me:hunter22@h/v1")

    row = answer(ClassPredictor("telling", Telling()), QUESTION, 5)
    assert row.error == "RuntimeError: [key] refused by https://h/v1"
