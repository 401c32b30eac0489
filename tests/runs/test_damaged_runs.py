"""Runs that were damaged or made by someone else: every command reads them or says what is wrong.

A run's directory is input: whatever its files hold, a command ends with an error that names the file, never
with a traceback, an abort or without end.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.limits import limited
from support.made_runs import Planned, make_questions, make_run

from branchrank.cli.main import main
from branchrank.runs import directory as names
from branchrank.runs.directory import read_run, sealed, write_run

#: Seconds after which a command counts as one that does not end.
PATIENCE = 60
Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    predictors = (Planned("local", 0.6), Planned("hybrid", 0.5, llm="scripted"))
    return make_run(tmp_path_factory.mktemp("runs"), predictors, make_questions(12)).directory


def record(**changes: Any) -> Damage:
    """Change fields of ``run.json``; the digests are made again, as whoever changes them would."""

    def damage(run: Path) -> None:
        path = run / names.RUN_JSON
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        reseal(run)

    return damage


def settings(section: str, **changes: Any) -> Damage:
    def damage(run: Path) -> None:
        path = run / names.RUN_JSON
        document = json.loads(path.read_text())
        document["settings"].setdefault(section, {}).update(changes)
        path.write_text(json.dumps(document))
        reseal(run)

    return damage


def predictors(**changes: Any) -> Damage:
    def damage(run: Path) -> None:
        path = run / names.RUN_JSON
        document = json.loads(path.read_text())
        document["predictors"][0] |= changes
        path.write_text(json.dumps(document))
        reseal(run)

    return damage


def lines(name: str, change: Callable[[dict[str, Any]], Any]) -> Damage:
    """Change the first object of a JSON Lines file."""

    def damage(run: Path) -> None:
        first, *others = (run / name).read_text().splitlines()
        document = json.loads(first)
        document = change(document) or document
        (run / name).write_text("\n".join([json.dumps(document), *others, ""]))
        reseal(run)

    return damage


def replaced(name: str, old: str, new: str) -> Damage:
    def damage(run: Path) -> None:
        text = (run / name).read_text()
        assert old in text
        (run / name).write_text(text.replace(old, new))
        reseal(run)

    return damage


def content(name: str, raw: bytes) -> Damage:
    def damage(run: Path) -> None:
        (run / name).write_bytes(raw)
        reseal(run)

    return damage


def folder(name: str) -> Damage:
    def damage(run: Path) -> None:
        (run / name).unlink()
        (run / name).mkdir()

    return damage


def fifo(name: str) -> Damage:
    def damage(run: Path) -> None:
        (run / name).unlink()
        os.mkfifo(run / name)

    return damage


def timing(value: str) -> Damage:
    def damage(run: Path) -> None:
        path = run / names.TIMINGS_CSV
        head, first, *others = path.read_text().splitlines()
        path.write_text("\n".join([head, first.rpartition(",")[0] + f",{value}", *others, ""]))
        reseal(run)

    return damage


def renamed(name: str) -> Damage:
    """Another name for the first predictor, everywhere."""

    def damage(run: Path) -> None:
        for file in (names.RUN_JSON, names.ROWS):
            text = (run / file).read_text()
            (run / file).write_text(text.replace('"local"', json.dumps(name)))
        path = run / names.TIMINGS_CSV
        path.write_text(path.read_text().replace("local,", f'"{name}",'))
        reseal(run)

    return damage


def reseal(run: Path) -> None:
    try:
        write_run(run, sealed(run, read_run(run)))
    except Exception:
        return


FILES = (names.RUN_JSON, names.ROWS, names.QUESTIONS, names.TIMINGS_CSV, names.GOLD)
DAMAGES: dict[str, Damage] = {
    "negative seed": record(seed=-1),
    "huge seed": record(seed=2**200),
    "seed of another type": record(seed="1"),
    "negative top k": record(top_k=-5),
    "huge top k": record(top_k=2**63),
    "another mode": record(mode="sideways"),
    "no predictors": record(predictors=[]),
    "no questions": record(question_ids=[]),
    "questions twice": record(question_ids=["q0", "q0"]),
    "provenance of another type": record(provenance=7),
    "a creation that is no time": record(created="yesterday\x1b[31m"),
    "a corpus that is a device": record(corpus="/dev"),
    "a corpus with a NUL": record(corpus="a\0b"),
    "settings of another type": record(settings=[1]),
    "a section of another type": record(settings={"benchmark": 3}),
    "a setting of another type": settings("benchmark", trace_depth="many"),
    "a setting out of range": settings("benchmark", alpha=-3, trace_depth=-1),
    "a huge trace": settings("benchmark", trace_depth=10**12),
    "an unknown measure": settings("benchmark", primary="Nonsense@9"),
    "a huge cutoff": settings("benchmark", measures=["nDCG@99999999999999999999"]),
    "an unknown baseline": settings("benchmark", baseline="nobody"),
    "huge repeats": predictors(repeats=10**15),
    "negative repeats": predictors(repeats=-1),
    "a row of another type": content(names.ROWS, b"[]\n"),
    "a row of an unknown question": lines(names.ROWS, lambda row: row | {"question_id": "unknown"}),
    "a row of a predictor without a name": lines(names.ROWS, lambda row: row | {"predictor": ""}),
    "a row of an unknown predictor": lines(names.ROWS, lambda row: row | {"predictor": "unknown"}),
    "a huge repeat": lines(names.ROWS, lambda row: row | {"repeat": 10**15}),
    "a negative repeat": lines(names.ROWS, lambda row: row | {"repeat": -1}),
    "huge lines": lines(
        names.ROWS, lambda row: row["hits"] and row["hits"][0].update(line_start=1, line_end=10**18)
    ),
    "negative lines": lines(
        names.ROWS, lambda row: row["hits"] and row["hits"][0].update(line_start=-5, line_end=-9)
    ),
    "a huge gain": lines(names.ROWS, lambda row: row["hits"] and row["hits"][0].update(gain=10**18)),
    "a huge score": lines(names.ROWS, lambda row: row["hits"] and row["hits"][0].update(score=1e308)),
    "gold beyond the question's": lines(
        names.ROWS, lambda row: row["hits"] and row["hits"][0].update(gold=99)
    ),
    "a rank of zero": lines(names.ROWS, lambda row: row | {"gold_ranks": {"fusion": 0}}),
    "a row that is not UTF-8": content(names.ROWS, b'{"question_id": "\xff"}\n'),
    "NaN in a row": replaced(names.ROWS, '"repeat":0', '"repeat":NaN'),
    "NaN times": timing("nan"),
    "infinite times": timing("inf"),
    "negative times": timing("-1.5"),
    "times that are no numbers": timing("soon"),
    "huge times": timing("1e300"),
    "times cut short": content(names.TIMINGS_CSV, b"predictor,question_id"),
    "times of nobody": content(
        names.TIMINGS_CSV, b"predictor,question_id,phase,stage,ms\nnobody,q0,warm,total,1\n"
    ),
    "a huge cell of times": content(names.TIMINGS_CSV, b"predictor," + b"x" * 200_000),
    **{f"{name} empty": content(name, b"") for name in FILES},
    **{f"{name} binary": content(name, b"\x00\xff\xfe\x1b" * 50) for name in FILES},
    **{f"{name} nested": content(name, b"[" * 100_000) for name in FILES},
    **{f"{name} a folder": folder(name) for name in FILES},
    **{f"{name} a pipe": fifo(name) for name in FILES},
    **{f"{name} missing": (lambda run, name=name: (run / name).unlink()) for name in FILES},
    "control characters in a name": renamed("lo\x01cal\x1b[31m\ud7ff\ufffe"),
    "markup in a name": renamed("</script><script>alert(1)</script>"),
    "a long name": renamed("x" * 1000),
}


@pytest.fixture
def patience() -> Iterator[None]:
    """Processor time does not depend on how busy the machine is; wall time ends a command that waits."""
    with limited(cpu_s=PATIENCE, wall_s=10 * PATIENCE, growth_mib=4096):
        yield


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.usefixtures("patience")
def test_a_damaged_run_is_read_or_refused(tmp_path: Path, whole: Path, damage: Damage) -> None:
    runs = tmp_path / "reports"
    run, other = runs / "a", runs / "b"
    shutil.copytree(whole, run)
    shutil.copytree(whole, other)
    damage(run)
    commands = [
        ["show", str(run)],
        ["compare", str(run), str(other)],
        ["verify", str(run)],
        ["list", "--reports", str(runs)],
        ["resume", str(run)],
    ]
    further = [
        ["report", str(run)],
        ["compare", str(other), str(run)],
        ["gate", str(run), str(other)],
        ["explain", str(run), "q0"],
        ["export-trec", str(run), "--output", str(tmp_path / "trec")],
    ]
    while commands:
        command = commands.pop(0)
        result = CliRunner().invoke(main, command)
        ended = result.exception is None or isinstance(result.exception, SystemExit)
        assert ended, (command, result.output, result.exc_info)
        assert "Traceback" not in result.output
        assert "\x1b[31m" not in result.output
        if command[0] == "show" and result.exit_code == 0:
            commands += further
