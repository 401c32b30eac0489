"""The table on the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console
from support.made_runs import Planned, make_questions, make_run

from branchrank.reports import terminal_report as terminal
from branchrank.reports.terminal_report import print_details, print_summary
from branchrank.runs.summary import columns_of

NAMES = ("local", "pageindex", "hybrid")


def wide(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Pretend that standard output is a terminal of so many columns."""

    def console(**options: object) -> Console:
        return Console(force_terminal=True, color_system="standard", width=columns)

    monkeypatch.setattr(terminal, "PipedConsole", console)


def test_every_number_fits_into_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_run(tmp_path, [Planned(name, 0.5) for name in NAMES])
    wide(monkeypatch, 80)
    print_summary(made)
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert max(len(line) for line in lines if "explain" not in line) <= 80
    assert lines[0] == "made, 60 questions, seed 42"
    head = next(place for place, line in enumerate(lines) if line.startswith("predictor"))
    assert lines[head].split()[:3] == ["predictor", "hit@1", "hit@5"]
    costs = [column.short.split("\n") for column in columns_of("terminal", made.summary_rows)]
    assert lines[head - 1].split()[-len(costs) :] == [words[0] for words in costs]
    for name, line in zip(NAMES, lines[head + 1 :], strict=False):
        cells = line.split()
        assert (cells[0], len(cells)) == (name, 5 + len(costs))
    assert lines[2].startswith("Inconclusive, hybrid leads. ")
    [step] = [line for line in lines if line.startswith("Next: ")]
    assert re.match(r"Next: hybrid vs local: about [\d,]+ questions on \d+ pages would decide;", step)
    last = lines[lines.index("misses:") + 1 :]
    assert all(line.startswith(f"  branchrank explain {made.directory} q0") for line in last)
    assert len(last) == 3
    print_details(made)
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert any(line.startswith("A strict hit contains") for line in lines)
    assert any(line.startswith("pageindex vs local: ") for line in lines)
    assert any("half hit@5" in line for line in lines)


def test_a_pipe_gets_one_line_for_each_predictor_and_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "swept[rrf_k=2, vector_weight=1.0, and more of it than a line of eighty columns can hold at all]"
    many = [Planned(name, share) for name, share in (("poor", 0.2), (long * 6, 0.5), ("local", 0.9))]
    print_summary(make_run(tmp_path / "many", many, latency_sample=0, baseline="poor"))
    [evidence] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Evidence: ")]
    assert evidence.endswith(f"not compared with {long * 6}; --all-pairs compares every pair of systems.")
    run = make_run(tmp_path, [Planned("local", 0.5), Planned(long, 0.5)], latency_sample=0)
    print_summary(run)
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line]) == 12
    assert [line for line in lines if line.startswith(long)] == [lines[9]]
    print_details(run)
    verdict = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{long} vs local: ")]
    assert len(verdict) == 1


def test_names_cannot_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nasty = "\x1b]0;title\x07[red]x[/red]\u202e"
    print_summary(make_run(tmp_path, [Planned("local", 0.5), Planned(nasty, 0.4)], latency_sample=0))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "[red]x[/red]" in out


def test_the_verdict_and_winners_are_bold_only_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_run(tmp_path, [Planned("local", 0.9), Planned("poor", 0.2)], latency_sample=0)
    print_summary(made)
    assert "\x1b" not in capsys.readouterr().out
    wide(monkeypatch, 80)
    print_details(made)
    print_summary(made)
    out = capsys.readouterr().out
    assert "\x1b[1mUse local.\x1b[0m" in out
    assert "\x1b[1mlocal" in out
    assert "\x1b[1mpoor" not in out
    pilot = make_run(tmp_path, questions=make_questions(9), latency_sample=0)
    print_summary(pilot)
    assert "\x1b[33mWarning: " in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    print_summary(pilot)
    assert not re.search(r"\x1b\[[\d;]*3\dm", capsys.readouterr().out)
