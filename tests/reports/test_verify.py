"""``verify`` finds a doctored figure wherever it stands, and names it."""

from __future__ import annotations

import csv
import shutil
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from support.commands import benchmark, invoke, make_project, program, write_lines
from support.made_runs import Planned, make_questions, make_run

from branchrank.core.io.files import write_jsonl
from branchrank.questions.question_files import load_questions, questions_digest
from branchrank.reports.drawing import drawn_by
from branchrank.reports.verify import Verification, verify
from branchrank.reports.writing import write_report
from branchrank.runs.directory import SealRecord, read_run, sealed, write_run
from branchrank.runs.rows import read_rows
from branchrank.runs.timings import write_timings


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    loaded = make_run(
        folder,
        (Planned("local", 0.6), Planned("reranked", 0.7, llm="tiny", fails="q0004")),
        make_questions(20, per_page=2, unanswerable=2),
    )
    write_report(loaded)
    return loaded.directory


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / made.name)


def replace_text(path: Path, old: str, new: str) -> None:
    """Replace the first occurrence of ``old`` in a file."""
    text = path.read_text(encoding="utf-8")
    assert old in text, (path, old)
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_an_untouched_run_passes(made: Path) -> None:
    assert verify(made) == Verification(findings=())
    result = invoke("verify", made)
    assert result.exit_code == 0
    assert "all numbers agree" in result.output


def test_the_command_reports_differences_and_fails(copied: Path) -> None:
    rate = (copied / "summary.csv").read_text().splitlines()[1].split(",")[3]
    replace_text(copied / "summary.csv", f"local,none,22,{rate},", "local,none,22,0.99,")
    result = invoke("verify", copied)
    assert result.exit_code == 1
    assert "summary.csv: line 2, character 17: is 'local,none,22,0.99," in result.output


def test_a_record_that_lost_a_part_is_a_finding_or_refused(copied: Path) -> None:
    whole = msgspec.json.decode((copied / "run.json").read_bytes())
    for lost in ("settings", "digests", "predictors"):
        (copied / "run.json").write_bytes(
            msgspec.json.encode({key: value for key, value in whole.items() if key != lost})
        )
        result = invoke("verify", copied)
        assert result.exit_code in (1, 3), (lost, result.output)
        assert "run.json" in result.output


def test_every_command_warns_of_files_that_have_changed(made: Path, copied: Path) -> None:
    commands = (("show",), ("report",), ("explain", "q0001"), ("compare", made), ("gate", "--baseline", made))
    for verb, *words in commands:
        result = invoke(verb, copied, *words)
        assert (result.exit_code, "changed since" in result.stderr) == (0, False), result.output
    with (copied / "gold.jsonl").open("a") as stream:
        stream.write(" ")
    for verb, *words in commands:
        result = invoke(verb, copied, *words)
        warned = f"warning: {copied / 'gold.jsonl'} has changed since the run" in result.stderr
        assert (result.exit_code, warned) == (0, True), result.output


def test_the_part_with_a_wrong_setting_is_named(copied: Path) -> None:
    record = msgspec.json.decode((copied / "run.json").read_bytes())
    record["settings"]["bm25"] = {"k1": "much"}
    (copied / "run.json").write_bytes(msgspec.json.encode(record))
    result = invoke("show", copied)
    assert (result.exit_code, "settings.bm25: " in result.stderr) == (3, True)


def test_files_that_are_something_else_are_named_with_a_fix(copied: Path) -> None:
    (copied / "hard.jsonl").unlink()
    (copied / "hard.jsonl").mkdir()
    result = invoke("report", copied)
    assert (result.exit_code, "fix: rename what is there" in result.stderr) == (8, True)
    (copied / "rows.jsonl").unlink()
    result = invoke("report", copied)
    assert "rows.jsonl is missing" in result.stderr
    (copied / "run.json").rename(copied / "real.json")
    (copied / "run.json").symlink_to("real.json")
    result = invoke("report", copied)
    assert f"fix: restore {copied / 'run.json'}" in result.stderr


def test_a_table_without_a_newer_column_is_compared_in_the_others(copied: Path) -> None:
    path = copied / "summary.csv"
    header, *lines = csv.reader(StringIO(path.read_text()))
    place = header.index("repeated_pages")
    shorter = [",".join([*line[:place], *line[place + 1 :]]) for line in (header, *lines)]
    path.write_text("\n".join([*shorter, ""]))
    verified = verify(copied)
    assert (verified.findings, len(verified.notes)) == ((), 1)
    assert verified.notes[0].startswith("summary.csv lacks repeated_pages; ")
    replace_text(path, f"local,none,22,{lines[0][3]},", "local,none,22,0.99,")
    assert [found.place for found in verify(copied).findings] == ["line 2, character 17"]


def test_calls_without_the_newer_column_of_errors_are_compared_in_the_others(copied: Path) -> None:
    path = copied / "llm_calls.csv"
    lines = path.read_text().splitlines()
    path.write_text("".join(line.rpartition(",")[0] + "\n" for line in lines))
    verified = verify(copied)
    assert (verified.findings, len(verified.notes)) == ((), 1)


def test_a_hit_credited_by_its_quote_is_correct(tmp_path: Path) -> None:
    """The quote stands twice on a page, and the hit is not on the gold's lines."""
    words = "Clean the *spout* of the pot with vinegar."
    filler = "\n".join(f"Line {number} is about other things." for number in range(200))
    project = make_project(tmp_path, {"index.md": f"# Tea\n\n{words}\n\n{filler}\n\n## Spout\n\n{words}\n"})
    line = {
        "question": "spout vinegar",
        "source_file": "index.md",
        "answer_quote": "the spout of the pot",
        "answer_line_start": 3,
        "answer_line_end": 3,
    }
    asked = write_lines(tmp_path / "asked.jsonl", [line])
    made = benchmark(project, "--predictor", "bm25", "--questions", asked)
    hit = read_rows(made / "rows.jsonl")[0].hits[0]
    assert (hit.gold, hit.line_start > 100) == (0, True)
    assert verify(made, corpus=project / "docs").findings == ()


def test_a_plot_by_another_version_is_not_compared(copied: Path) -> None:
    path = copied / "plots" / "differences.svg"
    path.write_text(path.read_text().replace(drawn_by(), "<!-- altair 1.0, vl-convert 0.1 -->"))
    verified = verify(copied)
    assert verified.findings == ()
    (note,) = verified.notes
    assert note.startswith("plots/differences.svg ")


#: ``ru_maxrss`` of a process starts at the size of the one that forked it; ``VmHWM`` is its own.
_MEASURED = """
import re, resource, sys
from pathlib import Path
from branchrank.core.errors import RunError
from branchrank.reports.verify import verify
try:
    found = len(verify(Path(sys.argv[1])).findings)
except RunError:
    found = 1
status = Path("/proc/self/status")
own = re.search(r"VmHWM:\\s+(\\d+)", status.read_text()) if status.exists() else None
peak = int(own[1]) if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(found, peak // 1024)
"""


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("run.json", '"latency_sample": 4', '"latency_sample": 1000000000000000000'),
        ("questions.jsonl", '"answer_line_end":28', '"answer_line_end":1000000000000000000'),
        *(
            pytest.param(*each, marks=pytest.mark.full)
            for each in (
                ("run.json", '"repeats": 1', '"repeats": 1000'),
                ("run.json", '"primary": "strict_hit@1"', '"primary": "nDCG@1000000000000000000"'),
                ("questions.jsonl", '_end":28', '_end":28,"relevance":1000000000000000000'),
                ("rows.jsonl", '"line_end":27', '"line_end":2000000000'),
                ("gold.jsonl", '"document_lines":40', '"document_lines":9000000000000000'),
            )
        ),
    ],
)
def test_a_huge_number_in_a_run_file_uses_little_memory(copied: Path, name: str, old: str, new: str) -> None:
    replace_text(copied / name, old, new)
    record = read_run(copied) if name != "run.json" else None
    if record is not None:
        digest = questions_digest(load_questions(copied / "questions.jsonl"))
        write_run(copied, sealed(copied, msgspec.structs.replace(record, questions_digest=digest)))
    ended = program("-c", _MEASURED, copied, cwd=copied.parent)
    findings, megabytes = map(int, ended.stdout.split())
    assert findings
    assert megabytes < 1000


def test_values_that_the_run_implies_are_computed_again(tmp_path: Path) -> None:
    run = make_run(tmp_path, questions=make_questions(20), top_k=3)
    write_report(run)
    assert invoke("verify", run.directory).exit_code == 0
    forged = msgspec.structs.replace(
        run.record, warnings=(), failures=1, seal=SealRecord(file="plan.seal", digest="0" * 64)
    )
    rows = list(run.rows)
    place, row = next((at, row) for at, row in enumerate(rows) if row.hits[0].gold is not None)
    bare = msgspec.structs.replace(row.hits[0], gold=None)
    rows[place] = msgspec.structs.replace(row, hits=(bare, *row.hits[1:]))
    write_jsonl(run.directory / "rows.jsonl", rows)
    kept = [each for each in run.timed if each.question_id != run.timed[0].question_id]
    write_timings(run.directory / "timings.csv", kept)
    write_run(run.directory, sealed(run.directory, forged))
    result = invoke("verify", run.directory)
    assert result.exit_code == 1
    found = {tuple(line.split(": ")[:2]) for line in result.output.splitlines()}
    key = f"question {row.question_id!r}, predictor {row.predictor!r}"
    wanted = {("run.json", name) for name in ("failures", "warnings", "seal")}
    wanted |= {("rows.jsonl", key), ("timings.csv", "predictor 'local'")}
    assert wanted <= found
    assert "hit 1: gold is None, should be 0" in result.output
