"""What a finished run prints, and the short names of runs and questions."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
from pathlib import Path

import msgspec
import pytest
from support.commands import invoke, make_project
from support.made_runs import Planned, make_questions, make_run
from support.worlds import make_index

from branchrank.core.records import Question, Retrieval
from branchrank.questions.question_files import EXAMPLE, UNPLACED
from branchrank.reports.losses import misses
from branchrank.run import Run
from branchrank.runs.directory import find_run


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Run:
    arms = [Planned("local", 0.5), Planned("hybrid", 0.55), Planned("grep", 0.5)]
    return make_run(tmp_path_factory.mktemp("once"), arms)


@pytest.fixture
def made(once: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The run as one of a folder that a test may change."""
    monkeypatch.chdir(tmp_path)
    return Run.load(shutil.copytree(once.directory, tmp_path / "reports" / once.directory.name))


def test_show_ends_with_the_next_steps_and_the_report(made: Run) -> None:
    done = invoke("show", "latest")
    lines = done.stdout.splitlines()
    verdict = next(line for line in lines if line.startswith("Inconclusive"))
    use, evidence, step = lines[lines.index(verdict) :][:3]
    assert len(f"{use} {evidence}".split(". ")[0].split()) <= 30
    assert evidence.startswith("Evidence: ")
    needs = re.fullmatch(
        r"Next: hybrid vs local: (about [\d,]+ questions on (\d+) pages would decide); (.*)\.", step
    )
    assert needs
    written = made.directory / "run.json"
    record = json.loads(written.read_text())
    index = {
        **dict.fromkeys(("name", "generation", "digest", "embedder", "model_revision", "vector_store"), ""),
        **dict.fromkeys(("dimension", "chunks", "nodes", "build_seconds", "bytes"), 1),
    }
    sparse = int(needs[2]) - 1
    assert sparse > 2 * 60, "the questions are on 60 pages"
    few = "the corpus has too few pages ({}) to decide"
    for documents, settled, way in (
        (30, few.format(30), "choose by cost"),
        (sparse, few.format(sparse), "choose by cost; questions on its other pages narrow the interval"),
        (100_000, "", needs[3]),
    ):
        written.write_text(json.dumps({**record, "indexes": [{**index, "documents": documents}]}))
        shown = invoke("show", "latest").stdout
        assert f"\nNext: hybrid vs local: {settled or needs[1]}; {way}.\n" in shown
        assert ("would decide" in shown) == (not settled)
        _, *opened, last = re.split(r"\n  (?:open|next): ", invoke("advise", made.directory).stdout)
        assert len(opened) == 2
        assert all((settled in each and "would decide" not in each) == bool(settled) for each in opened)
        assert last.endswith(f"{settled}; {way}\n" if settled else " --questions FILE\n")
    written.write_text(json.dumps(record))
    for line in lines[lines.index("misses:") + 1 : -1]:
        assert line.startswith("  branchrank explain ")
        assert f"{line.split()[-1]}: where does kettle" in invoke(*shlex.split(line)[1:]).stdout
    assert lines[-1] == f"report: reports/{made.directory.name}/report.html"
    assert invoke("report", "latest").exit_code == 0
    texts = [invoke(*words).stdout for words in (("power", "--run", "latest"), ("compare", "latest"))]
    texts.append((made.directory / "report.md").read_text(encoding="utf-8"))
    assert all(needs[1] in text.replace("About", "about") for text in texts)
    more = invoke("show", "latest", "--verbose").stdout
    assert "half hit@5" not in done.stdout
    assert "half hit@5" in more


def test_the_misses_are_those_that_most_other_systems_find(made: Run) -> None:
    best, others = "hybrid", ("local", "grep")
    values = {
        (name, depth): made.scores.per_question(name, made.measure(f"strict_hit@{depth}"))
        for name in made.predictors
        for depth in (1, 5)
    }
    for key in misses(made, best):
        assert values[best, 5][key] == 0
        assert all(values[name, 5][key] == 1 for name in others)


def test_a_run_and_a_question_have_short_names(made: Run, tmp_path: Path) -> None:
    name = made.directory.name
    for given in ("latest", name[:9], name, f"reports/{name[:9]}", str(made.directory)):
        assert invoke("explain", given, "q0007").stdout.startswith("q0007: ")
    several = invoke("explain", "latest", "q000").stderr
    assert re.search(r"\d+ questions .* 'q000'\n", several)
    assert several.endswith(" q0000, q0001, q0002, q0003, q0004\n")
    made_later = make_run(tmp_path, [Planned("local", 0.5)], make_questions(3), experiment="later").directory
    assert invoke("show", "latest").stdout.startswith("Pilot: later, 3 questions")
    assert f"'{name[:8]}': " in invoke("show", name[:8]).stderr
    assert invoke("show", "nothing").exit_code == 3
    none = invoke("resume", "latest")
    assert (none.exit_code, "interrupted run" in none.stderr) == (2, True)
    assert "'latest'" in invoke("advise").stderr
    pair = invoke("gate", "latest", "--baseline", made_later.name)
    assert pair.stdout.startswith("pass: local: ")
    assert invoke("datasets", "a=latest").exit_code == invoke("datasets", made_later).exit_code
    for words in (
        ("report", "latest"),
        ("verify", "latest"),
        ("advise", "latest"),
        ("export-trec", "latest", "--output", "trec"),
    ):
        assert invoke(*words).exit_code == 0


def test_runs_of_several_folders_are_listed_by_age(made: Run) -> None:
    """The oldest and the newest are in the second folder."""
    demo, name = Path("branchrank-demo/reports"), made.directory.name
    places = [demo / f"2001{name[4:]}", Path("reports") / name, demo / f"9001{name[4:]}"]
    for place in (places[0], places[2]):
        shutil.copytree(made.directory, place)
    assert [line.split()[0] for line in invoke("list").stdout.splitlines()] == [str(each) for each in places]
    assert find_run(Path("latest")) == places[-1]


def test_power_on_few_correlated_pages_has_a_way_on(tmp_path: Path) -> None:
    """Both pages are all wins or all losses, so that the correlation is 1."""

    class Pages(Planned):
        def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
            share = float((question.gold[0].source_file == "page-0.md") == (self.name == "local"))
            return Planned(self.name, share).predict(question, k)

    run = make_run(tmp_path, [Pages("local", 1), Pages("new", 1)], make_questions(40, per_page=20))
    done = invoke("power", "--run", run.directory)
    assert "correlation 1.00" in done.stdout
    assert '"none": no difference' in done.stdout
    assert "--questions" in done.stdout
    more = invoke("power", "--run", run.directory, "--sources", 100, "--icc", 0.1, "--questions", 200)
    assert "none" not in more.stdout


def test_export_says_that_ndcg_differs(made: Run) -> None:
    done = invoke("export-trec", "latest", "--output", "trec")
    assert "nDCG" in done.stderr
    assert "nDCG" not in done.stdout


def test_words_and_signs_of_a_report_are_plain(tmp_path: Path) -> None:
    """A count of one has a singular verb, and neither a backtick nor a sign is escaped."""
    first, *others, last = make_questions(23, unanswerable=1)
    waiting = msgspec.structs.replace(last, extra={UNPLACED: ["/gone: no such page"]})
    asked = [msgspec.structs.replace(first, extra={EXAMPLE: True, UNPLACED: ["/gone"]}), *others, waiting]
    run = make_run(tmp_path, questions=asked, latency_sample=0)
    assert invoke("report", run.directory).exit_code == 0
    text = (run.directory / "report.md").read_text(encoding="utf-8")
    assert "1 of 24 questions has no" in text
    assert "Warning: 1 of 24 questions is an" in text
    assert "Warning: 1 of 24 questions was imported" in text
    assert "\\+" not in text
    assert "\\`" not in text


def test_a_line_that_is_cut_ends_with_an_ellipsis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_index(tmp_path, {"long.md": f"# Long\n\n{'kettle ' * 40}\n"})[0].close()
    monkeypatch.setenv("COLUMNS", "60")
    shown = invoke("retrieve", "--data-dir", tmp_path / "data", "kettle").stdout
    [line] = [line for line in shown.splitlines() if line.startswith("    kettle kettle")]
    assert (len(line), line[-1]) == (60, "…")


@pytest.mark.parametrize("verb", ["questions", "beir"])
def test_summaries_of_subcommands_are_whole_sentences(verb: str) -> None:
    done = invoke(verb, "-h")
    assert done.stdout.count("...") == 1  # in the usage
    assert done.stdout.rstrip().endswith(".")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("named"))


EXPERIMENT = 'name = "words"\ndata_dir = "data"\n[systems.bm25]\n'


@pytest.mark.parametrize(
    ("verb", "name"), [("benchmark", "PR 12: longer chunks"), ("run", "<b>größer | `k=10` 茶")]
)
def test_a_run_has_the_name_that_it_was_given(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verb: str, name: str
) -> None:
    monkeypatch.chdir(project)
    Path("words.toml").write_text(EXPERIMENT)
    words = {"benchmark": ("--predictor", "bm25"), "run": ("words.toml",)}
    quick = ("--latency-sample", 0, "--quiet", "--reports", tmp_path)
    done = invoke(verb, *words[verb], "--name", name, *quick)
    assert done.exit_code == 0, done.output
    [made] = tmp_path.iterdir()
    assert json.loads((made / "run.json").read_text())["name"] == name
    assert name not in made.name
    assert f"{made}  {name}  finished" in invoke("list", "--reports", tmp_path).stdout
    assert f"{name}: " in invoke("show", made).stdout
    page = (made / "report.html").read_text(encoding="utf-8")
    assert html.escape(name, quote=False) in re.search("<h1.*?</h1>", page, re.DOTALL)[0]  # type: ignore[index]
    assert invoke("verify", made).exit_code == 0


@pytest.mark.parametrize("name", ["../up", "a\\b", "two\nlines", "x" * 81, " ", "\x1b[31m", "‮desrever"])
def test_a_name_that_is_no_line_or_a_path_is_refused_before_the_run(
    project: Path, tmp_path: Path, name: str
) -> None:
    words = ("--data-dir", project / "data", "--predictor", "bm25", "--reports", tmp_path / "reports")
    done = invoke("benchmark", *words, "--name", name)
    assert done.exit_code == 2
    assert "--name" in done.stderr
    assert not (tmp_path / "reports").exists()
