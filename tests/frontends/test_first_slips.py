"""What a person meets in the first minutes: a typo, a closed input, a stop in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from support.commands import benchmark, every_command, invoke, make_project, program


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("slips"))


@pytest.fixture(scope="module")
def made(project: Path) -> Path:
    """A run over the project."""
    return benchmark(project, "--predictor", "bm25")


@pytest.fixture(autouse=True)
def here(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--versoin", "--version"),
        ("retrive x", "retrieve"),
        ("questions chek", "check"),
        ("questions --hepl", "--help"),
        ("questions add --sorce x", "--source"),
        ("index --embeder fake", "--embedder"),
        ("index --embedder fakee", "fake"),
        ("index --embedder all-minilm-l6-v2", "all-MiniLM-L6-v2"),
        ("retrieve --predictor hybird x", "hybrid"),
        ("benchmark --predictor lcoal", "local"),
        ("benchmark --predictor famly", "family"),
        ("benchmark --predictor bm52", "bm25"),
        ("benchmark --primary nDGC@10", "nDCG@10"),
        ("benchmark --predictor local --baseline loca", "local"),
        ("serve --predictor locl", "local"),
        ("corpus add symfny", "symfony"),
    ],
)
def test_a_typo_gets_the_nearest_name(project: Path, typed: str, meant: str) -> None:
    (project / "experiment.toml").touch()
    done = invoke(*typed.split())
    assert done.exit_code in (2, 3, 6), done.output
    shown = " ".join(done.output.replace("Did", "did").replace("'", "`").split())
    assert f"did you mean `{meant}`" in shown.replace("one of: ", "")


@pytest.mark.parametrize(
    ("content", "meant"),
    [
        ("[locla]\n", "local"),
        ("[local]\nrrf_kk = 3\n", "rrf_k"),
        ("[benchmark]\nseed = 3\n", "sample_seed"),
        ("corpsu = 'docs'\n", "corpus"),
    ],
)
def test_a_typo_in_a_setting_gets_the_nearest_key(tmp_path: Path, content: str, meant: str) -> None:
    (tmp_path / "branchrank.toml").write_text(content)
    done = invoke("settings", "--data-dir", tmp_path)
    assert (done.exit_code, f"did you mean `{meant}`?" in done.output) == (2, True), done.output


@pytest.mark.parametrize("words", ["retrieve", "hybrid --no-llm", "search"])
@pytest.mark.parametrize("query", ["", "  "])
def test_an_empty_query_is_refused(words: str, query: str) -> None:
    done = invoke(*words.split(), query)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "empty" in done.stderr


def test_trec_files_in_the_wrong_order_get_the_right_order_suggested(tmp_path: Path) -> None:
    run, qrels = tmp_path / "bm25.run", tmp_path / "qrels.txt"
    run.write_text("q1 Q0 a 1 2.5 bm25\n")
    qrels.write_text("q1 0 a 1\n")
    for command in ("compare-trec", "score-trec"):
        done = invoke(command, run, qrels)
        assert done.exit_code == 3
        assert "-trec QRELS RUN" in done.stderr


@pytest.mark.parametrize("key", ["kindd", "kin", "knid", "Sourcefile", "answer_line_strat", "questoin"])
def test_a_slip_in_a_questions_key_is_refused(tmp_path: Path, key: str) -> None:
    asked = tmp_path / "asked.jsonl"
    line = {"question": "?", "answerable": False, "note": "kept", key: "x"}
    if key == "questoin":
        del line["question"]
    asked.write_text(json.dumps(line))
    done = invoke("questions", "check", asked, "--data-dir", tmp_path)
    assert done.exit_code == 3
    assert f"unknown key {key!r}: did you mean" in done.stderr


def test_a_missing_package_is_reported_before_any_query(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_edge", None)
    words = ("--data-dir", "data", "--predictor", "bm25", "--predictor", "qdrant")
    done = invoke("benchmark", *words, "--reports", tmp_path / "reports")
    assert done.exit_code == 5
    assert "pip install" in done.stderr
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize(
    "words",
    ["show RUN", *(pytest.param(each, marks=pytest.mark.full) for each in ("--help", "show --help", "list"))],
)
def test_a_closed_output_pipe_is_not_an_error(project: Path, made: Path, words: str) -> None:
    """``branchrank show RUN | head``: standard output is a pipe that nobody reads."""
    words = words.replace("RUN", str(made))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "branchrank.frontends.cli.main", *words.split()],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        cwd=project,
        timeout=120,
        check=False,
    )
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode in (0, 1)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("", "to resume, run the same command again (finished"),
        ("--fresh", "to resume, run the same command again without --fresh"),
    ],
)
def test_an_interrupted_benchmark_says_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, said: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("branchrank.library.run_benchmark", interrupted)
    done = invoke("benchmark", "--predictor", "bm25", "--reports", tmp_path, *flags.split())
    assert done.exit_code == 130
    assert said in done.stderr


#: Every command in one process, each in a child of its own that has no standard input.
WITHOUT_INPUT = """
import os, sys
from branchrank.frontends.cli.main import main
os.close(0)
sys.stdin = None
for line in sys.argv[1:]:
    words = line.split()
    child = os.fork()
    if not child:
        code = 99
        try:
            main(words, prog_name="branchrank")
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 98
        except BaseException:
            import traceback
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)
    print(line, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_no_command_has_a_traceback_for_a_closed_input(tmp_path: Path) -> None:
    """Each with no argument at all, and over a folder that is no workspace."""
    groups = [words for words, command in every_command().items() if isinstance(command, click.Group)]
    commands = [" ".join(words) for words in every_command() if words not in [*groups, ("demo",), ("view",)]]
    assert len(commands) > 35
    done = program("-c", WITHOUT_INPUT, *commands, cwd=tmp_path)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    codes = dict(
        line.rsplit(" ", 1) for line in done.stdout.splitlines() if line.rpartition(" ")[0] in commands
    )
    assert codes.keys() == set(commands)
    fine = {name for name, code in codes.items() if code == "0"}
    assert fine <= {
        "list",
        "settings",
        "plugins",
        "corpus list",
        "power",
        "retrieve",
        "hybrid",
    }  # no query, no answer
    assert {code for name, code in codes.items() if name not in fine} <= {"2", "3", "4", "5"}


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("label", signal.SIGINT),
        pytest.param("retrieve --quiet", signal.SIGTERM, marks=pytest.mark.full),
        pytest.param("retrieve --quiet", signal.SIGINT, marks=pytest.mark.full),
        pytest.param("label", signal.SIGTERM, marks=pytest.mark.full),
    ],
)
def test_a_command_that_waits_for_input_can_be_stopped(
    project: Path, made: Path, tmp_path: Path, words: str, number: signal.Signals
) -> None:
    """Its input is a pipe that stays open."""
    if words == "label":
        words = f"questions label {made} --output {tmp_path / 'x.jsonl'} --annotator ada"
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "branchrank.frontends.cli.main", *words.split()],
        cwd=project,
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if words.startswith("retrieve"):
        os.write(writing, b"green tea\n")
    process.stdout.readline()  # it is at work
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    os.close(reading)
    os.close(writing)
    assert process.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    assert "Traceback" not in errors


def test_end_of_input_at_a_prompt_is_an_interruption(project: Path, tmp_path: Path) -> None:
    """``click`` calls that an abortion; a person, or a pipe, has ended it."""
    (tmp_path / "empty").mkdir()
    code = (
        "import sys; sys.stdin.isatty = lambda: True\n"
        "from branchrank.frontends.cli.main import main; sys.exit(main(['init']))"
    )
    done = program("-c", code, cwd=tmp_path / "empty")
    assert done.returncode == 130
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_without_a_file_takes_the_experiment_of_the_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data, asked = project / "data", tmp_path / "asked.jsonl"
    Path("own.toml").write_text(f"name = 'own'\nquestions = '{asked}'\ndata_dir = '{data}'\n[systems.bm25]\n")
    done = invoke("run")
    assert done.exit_code == 2
    assert f" experiment.toml; the folder {tmp_path} contains own.toml" in done.stderr
    assert "nowhere" in invoke("run", "nowhere/own.toml").stderr
    Path("own.toml").rename("experiment.toml")
    asked.touch()
    empty = invoke("run")
    assert (empty.exit_code, "asked.jsonl" in empty.stderr) == (3, True)
    assert "`questions` in the experiment" in empty.stderr
    assert "--questions" not in empty.stderr
    asked.write_bytes((data / "benchmark" / "questions.jsonl").read_bytes())
    done = invoke("run", "--dry-run")
    assert done.stdout == "own: 8 questions\n  bm25 on index default: 8 queries\n"


def test_an_experiment_finds_a_module_in_the_working_directory(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("beside_it.py").write_text("class Empty:\n    def retrieve(self, query, k):\n        return ['']\n")
    data = project / "data"
    named = f"questions = '{data / 'benchmark' / 'questions.jsonl'}'\ndata_dir = '{data}'\n"
    Path("own.toml").write_text(f"name = 'own'\n{named}[systems.mine]\npredictor = 'beside_it:Empty'\n")
    done = invoke("run", "own.toml", "--reports", tmp_path / "reports")
    assert done.exit_code == 0, done.output
    assert "mine" in done.stdout
