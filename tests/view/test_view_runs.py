"""The list of runs: what it reads, its verdicts, trends and problems."""

from __future__ import annotations

import json
import os
import re
import shutil
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from support.http_server import CLIENT, Running, post

from branchrank.frontends.serve.view_runs import RunList, RunSummary, summarize_run
from branchrank.run import Run


def test_a_run_has_the_scores_and_verdicts_of_its_tables(made: Path) -> None:
    directory = sorted((made / "reports").iterdir())[0]
    found, run = summarize_run("one", directory), Run.load(directory)
    assert {each.system for each in found.scores} == set(Run.load(directory).summary["predictor"])
    row = run.summary_row("hybrid").estimates["strict_hit@1"]
    [score] = [each for each in found.scores if each.system == "hybrid"]
    assert row is not None
    assert (score.value, score.low) == (pytest.approx(row.value), pytest.approx(row.low, rel=1e-5))
    [comparison] = run.judgment.comparisons
    [verdict] = found.verdicts
    assert (verdict.verdict, verdict.candidate) == (comparison.verdict, comparison.candidate)


def test_the_list_reads_a_run_again_only_after_a_change(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = RunList([made / "reports"])
    assert [run.problem != "" for run in runs.summaries()] == [False, False, False, True]
    read: list[str] = []

    def noted(key: str, directory: Path) -> RunSummary:
        read.append(key)
        return summarize_run(key, directory)

    monkeypatch.setattr("branchrank.frontends.serve.view_runs.summarize_run", noted)
    runs.summaries()
    assert read == [], "nothing has changed"
    changed = sorted((made / "reports").iterdir())[0]
    os.utime(changed / "summary.csv")
    runs.summaries()
    assert read == [changed.name]


def test_a_run_in_progress_has_no_scores(tmp_path: Path, made: Path) -> None:
    directory = tmp_path / "running"
    directory.mkdir()
    record = json.loads((sorted((made / "reports").iterdir())[0] / "run.json").read_text())
    (directory / "run.json").write_text(json.dumps(record | {"status": "running"}))
    found = summarize_run("running", directory)
    assert (found.status, found.problem, found.scores) == ("interrupted", "", ())


@pytest.mark.parametrize("damage", ["strict_hit@1\nmany", "\xff", "predictor\n" + "a" * 200_000])
def test_a_damaged_table_is_a_problem_of_the_run(tmp_path: Path, made: Path, damage: str) -> None:
    directory = tmp_path / "damaged"
    directory.mkdir()
    whole = sorted((made / "reports").iterdir())[0]
    (directory / "run.json").write_bytes((whole / "run.json").read_bytes())
    (directory / "summary.csv").write_bytes(damage.encode("latin-1"))
    assert summarize_run("damaged", directory).problem


@pytest.mark.parametrize("damage", ["huge table", "huge record", "too many cells", "folder", "deep record"])
def test_one_bad_run_hides_no_other(tmp_path: Path, made: Path, damage: str) -> None:
    whole = sorted((made / "reports").iterdir())[0]
    for name in ("bad", "good"):
        shutil.copytree(whole, tmp_path / name)
    table, record = tmp_path / "bad" / "summary.csv", tmp_path / "bad" / "run.json"
    if damage == "folder":
        table.unlink()
        table.mkdir()
    elif damage == "too many cells":
        table.write_text("predictor\na,b,c\n")
    elif damage == "deep record":
        record.write_text("[" * 100_000)
    else:
        os.truncate(table if damage == "huge table" else record, 3 << 30)
    found = {run.key: run for run in RunList([tmp_path]).summaries()}
    assert (found["good"].problem, found["good"].status) == ("", "finished")
    assert found["bad"].problem
    assert found["bad"].folder == str(tmp_path / "bad")


@pytest.mark.parametrize("page_number", ["9" * 5000, "-1", "x", "\u0663", "1e9", "0x1"])
def test_any_page_number_is_answered(page: Running, page_number: str) -> None:
    key = CLIENT.get(f"{page.url}/api/runs").json()["runs"][0]["key"]
    found = CLIENT.get(f"{page.url}/api/questions", params={"run": key, "page": page_number})
    assert found.status_code == 200


def test_runs_are_served_with_their_problems(page: Running) -> None:
    found = CLIENT.get(f"{page.url}/api/runs").json()
    assert [run["created"][:10] for run in found["runs"]] == ["2026-01-03", "2026-01-02", "2026-01-01", ""]
    assert "run.json" in found["runs"][-1]["problem"]
    query = {"run": found["runs"][0]["key"]}
    report = CLIENT.get(f"{page.url}/report/{found['runs'][0]['report']}", params=query)
    assert report.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
    # Only BranchRank's own script runs, because a script can send a page's text by leaving the page.
    allowed = report.headers["content-security-policy"].partition("script-src ")[2].partition(";")[0]
    (script,) = re.findall("<script>(.*?)</script>", report.text, re.DOTALL)
    assert allowed == f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
    assert CLIENT.get(f"{page.url}/report/run.json", params=query).status_code == 404
    assert CLIENT.get(f"{page.url}/report/report.html", params={"run": "../data"}).status_code == 422


def test_the_page_and_its_files_have_a_strict_policy(page: Running) -> None:
    for path in ("/", "/questions", "/compare", "/label", "/page/view.js", "/page/report.css", "/api/runs"):
        answer = CLIENT.get(page.url + path)
        assert answer.status_code == 200
        assert "default-src 'none'; script-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert b"<script>" not in CLIENT.get(page.url).content


@pytest.mark.parametrize(
    "path", ["/page/../view.py", "/page/%2e%2e%2fview.py", "/page/view.html", "/nothing"]
)
def test_no_other_file_is_served(page: Running, path: str) -> None:
    raw = post(b"", path=path, host=f"127.0.0.1:{page.port}").replace(b"POST", b"GET", 1)
    assert page.send(raw)[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1.evil.example", "[::1]"])
def test_another_host_or_origin_can_not_read(page: Running, host: str) -> None:
    raw = post(b"", path="/api/runs", host=host).replace(b"POST", b"GET", 1)
    assert page.send(raw)[0] == 421
    for origin in (f"http://{host}:{page.port}", "null"):
        assert CLIENT.get(f"{page.url}/api/runs", headers={"origin": origin}).status_code == 403
