"""The pipelines of docs/pipelines.md and examples/pipelines run whole over the sample, also in workers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.commands import ROOT, program, table, write_lines
from support.doc_blocks import blocks
from support.small_corpus import small_workspace

from branchrank import Workspace
from branchrank.core.errors import UsageError

SAMPLE = ROOT / "data" / "sample"
QUICKSTARTS = ROOT / "examples" / "pipelines"
QUESTIONS = 12
#: The pipelines of the page, and those of the examples, whose embeddings are not fakes.
PAGE = (
    "langchain:rag:retriever",
    "llamaindex:rag_llamaindex:retriever",
    "haystack:rag_haystack:pipeline",
    "pyterrier:rag_pyterrier:transformer",
)
EXAMPLES = (
    "langchain:langchain_quickstart:retriever",
    "llamaindex:llamaindex_quickstart:retriever",
    "haystack:haystack_quickstart:pipeline",
)
#: PyTerrier's own retriever, which is Terrier in Java.
TERRIER = """
from pathlib import Path
import pyterrier as pt

files = Path("docs").rglob("*.md")
pages = [{"docno": each.relative_to("docs").as_posix(), "text": each.read_text()} for each in files]
index = pt.IterDictIndexer(str(Path("index").absolute()), meta={"docno": 100, "text": 100_000}).index(pages)
found = pt.rewrite.tokenise() >> pt.terrier.Retriever(index, wmodel="BM25")
transformer = found >> pt.text.get_text(index, "text")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample in ``docs``, indexed, and the modules of the page."""
    folder = tmp_path_factory.mktemp("whole")
    shutil.copytree(SAMPLE / "corpus", folder / "docs")
    small_workspace(folder)
    for module in blocks("docs/pipelines.md", "python"):
        if name := re.match(r"# (\w+\.py): ", module.text):
            (folder / name[1]).write_text(module.text, encoding="utf-8")
    (folder / "terrier.py").write_text(TERRIER, encoding="utf-8")
    return folder


def benchmark(project: Path, reports: str, *words: object) -> tuple[Path, dict[str, dict[str, str]]]:
    """A benchmark as a program; returns the run's folder and the rows of its summary."""
    done = program(
        *("-m", "branchrank", "benchmark", "--data-dir", "data", "--questions", SAMPLE / "questions.jsonl"),
        *("--sample-size", QUESTIONS, "--latency-sample", 0, "--reports", reports, *words),
        cwd=project,
        environment={
            "CORPUS": "docs",
            "HAYSTACK_TELEMETRY_ENABLED": "False",
            "PYTHONPATH": str(QUICKSTARTS),
            "PYTHONWARNINGS": "",
        },
        fresh=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    [made] = (project / reports).iterdir()
    return made, {row["predictor"]: row for row in table(made / "summary.csv")}


def predictors(names: tuple[str, ...]) -> list[str]:
    return [word for name in names for word in ("--predictor", name)]


@pytest.mark.full
@pytest.mark.parametrize(("names", "least"), [(PAGE, 0.0), (EXAMPLES, 0.5)], ids=["the page", "the examples"])
def test_every_pipeline_answers_and_its_texts_are_placed(
    project: Path, names: tuple[str, ...], least: float
) -> None:
    made, summary = benchmark(project, names[0].replace(":", "-"), *predictors(names))
    assert len(summary) == len(names)
    for row in table(made / "questions.csv"):
        assert (row["status"], row["error"]) == ("ok", ""), row
    for name, row in summary.items():
        unplaced = int(row.get("missing_hits") or 0) + int(row.get("ambiguous_hits") or 0)
        assert unplaced <= QUESTIONS * 10 // 20, f"{name}: {unplaced} texts without a place"
        assert float(row["relaxed_hit@5"]) >= least, name
    verified = program("-m", "branchrank", "verify", made, cwd=project, fresh=True)
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    "engine", [("--jobs", 2), ("--engine", "ray", "--jobs", 2)], ids=["processes", "ray"]
)
def test_pipelines_in_workers_give_the_rows_of_one_process(project: Path, engine: tuple[object, ...]) -> None:
    # LlamaIndex's mock gives equal vectors to all texts, so its order is that of random ids.
    words = predictors(tuple(name for name in PAGE if not name.startswith("llamaindex")))
    alone, _ = benchmark(project, f"alone-{len(engine)}", *words)
    made, _ = benchmark(project, f"workers-{len(engine)}", *words, *engine)
    assert without_ids(made) == without_ids(alone)


def without_ids(made: Path) -> str:
    """The rows, without the random ids that LangChain and LlamaIndex give to documents."""
    return re.sub(r'"id":"[^"]*"', "", (made / "rows.jsonl").read_text(encoding="utf-8"))


@pytest.mark.full
def test_terrier_in_java_answers(project: Path) -> None:
    if not shutil.which("java"):
        pytest.skip("Terrier needs Java, and there is no java")
    if find_spec("jnius_config") is None:
        pytest.skip("Terrier needs the package pyjnius (pip install 'pyterrier[java]')")
    started = subprocess.run(
        [sys.executable, "-c", "import pyterrier; pyterrier.java.init()"],
        capture_output=True,
        text=True,
        check=False,
    )
    if "URLError" in started.stderr:
        pytest.skip("Terrier's program can't be downloaded here")
    assert started.returncode == 0, started.stderr
    _, summary = benchmark(project, "terrier", "--predictor", "pyterrier:terrier:transformer")
    [row] = summary.values()
    assert float(row["relaxed_hit@5"]) >= 0.5


@pytest.mark.full
def test_an_object_works_in_workers_if_it_can_be_pickled(tmp_path: Path) -> None:
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.runnables import RunnableLambda
    from langchain_core.vectorstores import InMemoryVectorStore

    small_workspace(tmp_path)
    gold = {"source_file": "index.md", "answer_line_start": 3, "answer_line_end": 3}
    questions = write_lines(tmp_path / "q.jsonl", [{"id": "boils", "question": "what boils", **gold}])
    store = InMemoryVectorStore.from_texts(
        ["The kettle boils water.", "Never touch the hot plate."], DeterministicFakeEmbedding(size=8)
    )
    with Workspace.open(tmp_path / "data") as workspace:
        given = {"questions": questions, "latency_sample": 0, "settings": {"engine.jobs": 2}}
        run = workspace.benchmark([("store", store.as_retriever())], reports=tmp_path / "r", **given)
        assert [len(row.hits) for row in run.rows] == [2]
        with pytest.raises(UsageError, match="can't be sent"):
            workspace.benchmark([RunnableLambda(lambda query: [])], reports=tmp_path / "r", **given)
