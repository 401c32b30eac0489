"""Runs to look at, the page's server, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.http_server import Running
from support.local_page import page_of
from support.made_runs import Planned, make_corpus, make_questions, make_run

from branchrank.questions.question_files import write_questions
from branchrank.reports.writing import write_report
from branchrank.run import Run


def dated(run: Run, created: str) -> None:
    """Give a run's directory another date."""
    path = run.directory / "run.json"
    path.write_text(path.read_text().replace(run.record.created, created))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of one experiment, the last with fewer questions; one that can't be read; a workspace."""
    folder = tmp_path_factory.mktemp("view")
    make_corpus(folder / "docs", 41, text="kettle <img src=x onerror=alert(1)> \x1b[31m")
    questions = make_questions(30, unanswerable=2)
    arms = [Planned("local", 0.6), Planned("hybrid", 0.8), Planned("<b>bold</b>", 0.2)]
    dated(make_run(folder, arms[:2], questions), "2026-01-01T00:00:00+00:00")
    others = [Planned("hybrid", 0.7), Planned("local", 0.6), Planned("extra", 0.5)]
    change = partial(replace, name="<i>second")
    dated(make_run(folder, others, questions, baseline="local", change=change), "2026-01-02T00:00:00+00:00")
    newest = make_run(folder, arms, make_questions(25))
    write_report(newest)
    dated(newest, "2026-01-03T00:00:00+00:00")
    broken = folder / "reports" / "broken"
    broken.mkdir()
    (broken / "run.json").write_text('{"schema_version": 2, "experiment": "<script>alert(1)</script>"}')
    data = folder / "data"
    data.mkdir()
    (data / "branchrank.toml").write_text('corpus = "../docs"\nquestions = "questions.jsonl"\n')
    write_questions(data / "questions.jsonl", questions)
    return folder


@pytest.fixture(scope="session")
def page(made: Path) -> Iterator[Running]:
    """The page of :func:`made`, which no test changes."""
    with page_of(made) as started:
        yield started
