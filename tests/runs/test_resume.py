"""A run that was killed, wherever it stood, is resumed and ends with the same rows, byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from click.testing import Result
from support.commands import (
    NO_LLM,
    QUESTIONS,
    ROOT,
    benchmark,
    invoke,
    json_lines,
    make_project,
    program,
    write_lines,
)

from branchrank.core.errors import RunError
from branchrank.runs import directory as names
from branchrank.runs.directory import latest_unfinished, new_directory, read_run, write_run
from branchrank.runs.rows import RowLog

RACERS = [word for name in ("local", "hybrid", "support.predictors:Killed") for word in ("--predictor", name)]
DOOR = ROOT / "benchmark_run.py"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("resume"))


def run(project: Path, reports: Path, killed_at: int, *command: object, by: str = "SIGKILL"):
    """The benchmark as a program that ends at one query of the predictor ``killed``; 0: at none."""
    return program(
        *(command or (DOOR, *RACERS, *NO_LLM, "--latency-sample", 2, "--reports", reports)),
        cwd=project,
        environment={
            "PYTHONPATH": str(ROOT / "tests"),
            "KILLED_COUNTER": str(reports.parent / f"{reports.name}.counter"),
            "KILLED_AT": str(killed_at),
            "KILLED_BY": by,
        },
    )


@pytest.fixture(scope="module")
def whole(project: Path) -> bytes:
    """The rows of a run that nothing interrupts."""
    reports = project / "whole"
    done = run(project, reports, 0)
    assert done.returncode == 0, done.stderr
    return rows_of(reports)


def rows_of(reports: Path) -> bytes:
    [directory] = reports.iterdir()
    return (directory / names.ROWS).read_bytes()


def queries(reports: Path) -> int:
    return len((reports.parent / f"{reports.name}.counter").read_text())


def test_a_killed_run_is_resumed_where_it_stopped(project: Path, whole: bytes) -> None:
    reports = project / "killed"
    done = run(project, reports, 5)
    assert done.returncode == -9
    [directory] = reports.iterdir()
    assert read_run(directory).status == "running"
    kept = (directory / names.ROWS).read_bytes()
    assert whole.startswith(kept)
    assert kept.count(b"\n") == 3 * 4 + 2
    with (directory / names.ROWS).open("ab") as stream:
        stream.write(whole[len(kept) : len(kept) + 40])  # a row that was cut short
    done = run(project, reports, 0)
    assert done.returncode == 0, done.stderr
    assert f"interrupted run {directory}" in done.stderr
    assert "last row" in done.stderr
    assert rows_of(reports) == whole
    assert read_run(directory).status == "finished"
    assert queries(reports) == 4 + 1 + 4 + 3, "asked, killed, the rest, and the latency pass"


def test_a_run_killed_while_timing_asks_no_question_again(project: Path, whole: bytes) -> None:
    reports = project / "timing"
    assert run(project, reports, 10).returncode == -9
    assert rows_of(reports) == whole
    command = ("-m", "branchrank.frontends.cli.main", "resume", next(reports.iterdir()), "--trust")
    done = run(project, project / "again", 0, *command)
    assert done.returncode == 0, done.stderr
    assert rows_of(reports) == whole
    assert len((project / "again.counter").read_text()) == 3, "the latency pass alone"


@pytest.mark.parametrize(("by", "code", "said"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "")])
def test_ctrl_c_and_sigterm_keep_the_finished_rows(project: Path, by: str, code: int, said: str) -> None:
    reports = project / by
    done = run(project, reports, 3, by=by)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    [directory] = reports.iterdir()
    assert read_run(directory).status == "running"
    assert len(json_lines(directory / names.ROWS)) == 3 * 2 + 2


@pytest.fixture(scope="module")
def finished(project: Path) -> Path:
    """A finished run of one predictor."""
    return benchmark(project, "--predictor", "local", reports=project / "finished")


def unfinished(reports: Path, finished: Path, **changes: object) -> Path:
    """A run directory that looks like ``finished`` did half-way."""
    directory = new_directory(reports, "benchmark", 42)
    record = msgspec.structs.replace(read_run(finished), status="running", **changes)
    write_run(directory, record)
    (directory / names.QUESTIONS).write_bytes((finished / names.QUESTIONS).read_bytes())
    (directory / names.ROWS).write_bytes((finished / names.ROWS).read_bytes().splitlines(keepends=True)[0])
    return directory


def test_only_a_run_of_the_same_plan_is_resumed(finished: Path, tmp_path: Path) -> None:
    record = read_run(finished)
    assert latest_unfinished(finished.parent, record.plan) is None
    waiting = unfinished(tmp_path / "second", finished)
    assert latest_unfinished(tmp_path / "second", record.plan) == waiting
    bm25 = {**record.settings, "bm25": {**record.settings["bm25"], "k1": 2.0}}
    measured = record.settings["benchmark"]
    other_index = msgspec.structs.replace(record.indexes[0], digest="0" * 64)
    for change in (
        {"corpus_digest": "0" * 64},
        {"questions_digest": "0" * 64},
        {"question_ids": record.question_ids[1:]},
        {"top_k": 3},
        {"seed": 7},
        {"predictors": ()},
        {"settings": bm25},
        {"indexes": (other_index,)},
        {"experiment": "another"},
        {"split": "x"},
        {"predictors": (msgspec.structs.replace(record.predictors[0], origin="http://127.0.0.1:2/x"),)},
        {"settings": {**record.settings, "benchmark": {**measured, "latency_sample": 9}}},
        {"settings": {**record.settings, "benchmark": {**measured, "question_text": "hash"}}},
        {"settings": {**record.settings, "benchmark": {**measured, "predictor_timeout": 9.0}}},
        {"settings": {**record.settings, "benchmark": {**measured, "reanchor": True}}},
    ):
        other = msgspec.structs.replace(record, **change)
        assert latest_unfinished(tmp_path / "second", other.plan) is None, change
    alike = msgspec.structs.replace(record, command="another", created="another")
    assert latest_unfinished(tmp_path / "second", alike.plan) == waiting
    newer = unfinished(tmp_path / "second", finished)
    damaged = tmp_path / "second" / "29990101T000000Z-benchmark-42"
    damaged.mkdir()
    (damaged / names.RUN_JSON).write_text("{")
    assert latest_unfinished(tmp_path / "second", record.plan) == newer


def test_settings_that_only_the_report_reads_do_not_keep_a_run_from_being_resumed(
    project: Path, finished: Path, tmp_path: Path
) -> None:
    waiting = unfinished(tmp_path / "second", finished)
    words = ("--data-dir", project / "data", "--predictor", "local", "--latency-sample", 0)
    invoke("benchmark", *words, "--reports", tmp_path / "second", "--alpha", 0.1)
    assert [path.name for path in (tmp_path / "second").iterdir()] == [waiting.name]


def test_a_run_killed_before_its_report_is_completed_by_the_next_command(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    words = ("benchmark", "--data-dir", project / "data", "--reports", tmp_path, "--predictor", "bm25")
    quick = ("--latency-sample", 1, "--quiet")
    with monkeypatch.context() as patched:
        patched.setattr("branchrank.reports.writing.html", killed)
        assert invoke(*words, *quick).exit_code == 130
    [made] = tmp_path.iterdir()
    rows = (made / names.ROWS).read_bytes()
    times = (made / names.TIMINGS_CSV).read_bytes()
    assert read_run(made).status == "running"
    with RowLog(made / names.ROWS):
        assert f"{made}  running  " in invoke("list", "--reports", tmp_path).stdout
    assert f"{made}  interrupted  " in invoke("list", "--reports", tmp_path).stdout
    done = invoke(*words, *quick)
    assert done.exit_code == 0, done.output
    assert [path.name for path in tmp_path.iterdir()] == [made.name]
    assert read_run(made).status == "finished"
    assert (made / names.REPORT_HTML).exists()
    assert (made / names.ROWS).read_bytes() == rows
    assert (made / names.TIMINGS_CSV).read_bytes() == times
    assert invoke("verify", made).exit_code == 0


@pytest.mark.parametrize("verb", ["show", "report", "verify", "compare"])
def test_an_unfinished_run_is_not_shown_as_finished(finished: Path, tmp_path: Path, verb: str) -> None:
    waiting = unfinished(tmp_path / "second", finished)
    result = invoke(verb, waiting, *([waiting] if verb == "compare" else []))
    assert result.exit_code == (1 if verb == "verify" else 3)
    assert "is not finished: it has 1 of 8 rows" in result.output
    assert "S@1" not in result.output


def resume(project: Path, run: Path, *words: object) -> Result:
    return invoke("resume", run, "--data-dir", project / "data", "--quiet", *words)


def test_resume_continues_the_run_it_is_given(project: Path, finished: Path, tmp_path: Path) -> None:
    """Not the newest of the same plan, and without its question file and its command."""
    changes = {"command": "rm -rf /", "questions_file": "gone.jsonl"}
    older, newer = (unfinished(tmp_path / "second", finished, **changes) for _ in range(2))
    record = read_run(older)
    resumed = resume(project, older)
    assert resumed.exit_code == 0, resumed.output
    done = read_run(older)
    assert (done.status, done.command, done.created) == ("finished", record.command, record.created)
    assert (done.settings, done.origins) == (record.settings, record.origins)
    assert (older / names.ROWS).read_bytes() == (finished / names.ROWS).read_bytes()
    assert read_run(newer).status == "running"
    assert invoke("verify", older).exit_code == 0


def test_a_run_without_wording_is_resumed_with_its_question_file(project: Path, tmp_path: Path) -> None:
    hashed = benchmark(project, "--predictor", "local", "--question-text", "hash", reports=tmp_path / "first")
    waiting = unfinished(tmp_path / "second", hashed)
    resumed = resume(project, waiting)
    assert resumed.exit_code == 0, resumed.output
    assert (waiting / names.ROWS).read_bytes() == (hashed / names.ROWS).read_bytes()
    other = write_lines(tmp_path / "other.jsonl", [QUESTIONS[0]])
    again = unfinished(tmp_path / "third", hashed)
    refused = resume(project, again, "--questions", other)
    assert refused.exit_code == 3
    assert "the questions changed" in refused.stderr


def test_a_run_whose_corpus_or_settings_have_changed_is_not_resumed(
    project: Path, finished: Path, tmp_path: Path
) -> None:
    """And no other run is started in its place."""
    reports = tmp_path / "second"
    waiting = unfinished(reports, finished, corpus_digest="0" * 64, top_k=7)
    before = (waiting / names.ROWS).read_bytes()
    resumed = resume(project, waiting)
    assert resumed.exit_code == 3
    assert "the corpus, --top-k changed" in resumed.stderr
    assert [path.name for path in reports.iterdir()] == [waiting.name]
    assert (waiting / names.ROWS).read_bytes() == before


def test_an_index_is_not_built_to_resume_a_run(finished: Path, tmp_path: Path) -> None:
    other = make_project(tmp_path / "other")
    shutil.rmtree(other / "data" / "indexes")
    resumed = resume(other, unfinished(tmp_path / "second", finished))
    assert resumed.exit_code == 4
    assert "branchrank index" in resumed.stderr
    assert not (other / "data" / "indexes").exists()


def test_a_credential_in_the_command_is_not_kept_and_resume_takes_it_from_the_environment(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "redis://:Sup3rSecretPW@127.0.0.1:9/0"
    words = ("--predictor", "local", "--cache-redis-url", url, "--latency-sample", 0)
    done = program(DOOR, *words, "--reports", tmp_path / "reports", cwd=project)
    assert done.returncode == 0, done.stderr
    [made] = (tmp_path / "reports").iterdir()
    assert all(b"Sup3rSecretPW" not in path.read_bytes() for path in made.rglob("*") if path.is_file())
    waiting = unfinished(tmp_path / "second", made)
    refused = resume(project, waiting)
    assert refused.exit_code == 3
    assert "- Redis redis://127.0.0.1:9/0" in refused.stderr
    monkeypatch.setenv("BRANCHRANK_CACHE_REDIS_URL", url)
    assert resume(project, waiting).exit_code == 0
    assert b"Sup3rSecretPW" not in (waiting / names.RUN_JSON).read_bytes()


def test_a_run_that_another_process_is_writing_is_not_resumed(
    project: Path, finished: Path, tmp_path: Path
) -> None:
    waiting = unfinished(tmp_path / "second", finished)
    with RowLog(waiting / names.ROWS) as log:
        made = benchmark(project, "--predictor", "local", reports=tmp_path / "second")
        assert made != waiting
        assert len(log.rows) == 1
    assert len(json_lines(waiting / names.ROWS)) == 1


def test_directories_made_in_the_same_second_have_distinct_safe_names(tmp_path: Path) -> None:
    made = {new_directory(tmp_path / "reports", "../a b/ä", 7).name for _ in range(4)}
    assert len(made) == 4
    for stamp in {name.partition("Z-")[0] for name in made}:
        names = sorted(name.partition("Z-")[2] for name in made if name.startswith(stamp))
        assert names == ["a-b-7", "a-b-7-2", "a-b-7-3", "a-b-7-4"][: len(names)]


@pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"settings": ' + b"[" * 50_000])
def test_an_unreadable_run_is_reported(tmp_path: Path, content: bytes | None) -> None:
    directory = tmp_path / "reports" / "20260101T000000Z-x-1"
    directory.mkdir(parents=True)
    if content is not None:
        (directory / names.RUN_JSON).write_bytes(content)
    with pytest.raises(RunError):
        read_run(directory)
    for verb in ("show", "resume"):
        result = invoke(verb, directory)
        assert result.exit_code == 3
        assert "fix: " in result.stderr
    listed = invoke("list", "--reports", tmp_path / "reports")
    assert listed.exit_code == 0
    assert ("unreadable" in listed.stdout) == (content is not None)


def test_a_finished_run_is_not_resumed_but_listed_and_shown(finished: Path) -> None:
    resumed = invoke("resume", finished)
    assert resumed.exit_code == 3
    assert "is finished" in resumed.stderr
    listed = invoke("list", "--reports", finished.parent).stdout
    assert f"{finished}  finished  8 questions  local" in listed.splitlines()
    assert "local" in invoke("show", finished).stdout


@pytest.mark.parametrize(
    "schema",
    [1, 3],
)
def test_a_run_with_another_schema_is_refused(finished: Path, tmp_path: Path, schema: int) -> None:
    directory = unfinished(tmp_path / "second", finished, schema_version=schema)
    with pytest.raises(RunError, match=f"{schema}.*schema_version"):
        read_run(directory)
