"""The data of the question browser: every text of a run made safe."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from support.made_runs import Planned, make_questions, make_run

from branchrank.report.browser import browser_data

HOSTILE = "kind\x1b]0;title\x07\u202e\x00"


def test_text_of_a_run_is_escaped_in_the_page(tmp_path: Path) -> None:
    questions = [
        msgspec.structs.replace(question, kind=f"{HOSTILE}{number % 2}")
        for number, question in enumerate(make_questions(4))
    ]
    run = make_run(tmp_path, [Planned("local", 0.6)], questions)
    about, found = browser_data(run, with_quotes=True)
    written = json.dumps([about, found], ensure_ascii=True)
    for hidden in ("\\u001b", "\\u0007", "\\u202e", "\\u0000"):
        assert hidden not in written
    kinds = dict(about["slices"])["kind"]
    place = [name for name, _ in about["slices"]].index("kind")
    assert {question[2][place] for question in found} == set(kinds)
