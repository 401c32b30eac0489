"""Questions for lines and questions for a whole file are reported apart, before both together."""

from __future__ import annotations

import re

import msgspec
import pytest
from support.made_runs import Planned, make_questions, make_run

from branchrank.reports.blocks import markdown
from branchrank.reports.content import report_content
from branchrank.reports.terminal_report import print_details
from branchrank.run import Run


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """20 questions for lines, 10 for a whole file, 2 that nothing answers."""
    questions = [
        msgspec.structs.replace(each, gold_level="file") if each.gold and place % 3 == 0 else each
        for place, each in enumerate(make_questions(30, unanswerable=2))
    ]
    arms = (Planned("local", 0.6), Planned("poor", 0.3))
    return make_run(tmp_path_factory.mktemp("mixed"), arms, questions)


@pytest.fixture(scope="module")
def rates(mixed: Run) -> dict[str, str]:
    """The rates of ``local``, worked out from the rows alone: the span level's, the files', both's."""
    first = {row.question_id: row.hits[0].gold is not None for row in mixed.rows if row.predictor == "local"}
    files = [first[each.id] for each in mixed.asked if each.gold_level == "file"]
    spans = [first[each.id] for each in mixed.asked if each.gold and each.gold_level == "span"]
    assert (len(spans), len(files)) == (20, 10)
    parts = {"span": spans, "file": files, "both": spans + files}
    return {level: f"{100 * sum(hits) / len(hits):.1f}%" for level, hits in parts.items()}


def test_the_terminal_shows_each_level_before_both(
    mixed: Run, rates: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    print_details(mixed)
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines() if line.startswith("local ")]
    assert [line[2:5] for line in lines[:3]] == [
        ["span", "20", rates["span"]],
        ["file", "10", rates["file"]],
        ["both", "30", rates["both"]],
    ]
    assert "20 for lines and 10 " in out


def test_the_report_has_rows_for_each_level(mixed: Run, rates: dict[str, str]) -> None:
    text = markdown(report_content(mixed))
    for caption in ("Hit rates over", "Hits with any, half or all", "Hit rates, and mean length"):
        table = re.split(rf"^{caption}", text, flags=re.MULTILINE)[1].split("\n\n")[1]
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        place = rows[0].index("gold")
        found = {row[place]: row for row in rows[2:] if row[0] == "local"}
        assert list(found) == ["span", "file", "both"]
        assert [row[place + 1] for row in found.values()] == ["20", "10", "30"]
        for level, row in found.items():
            assert row[rows[0].index("strict hit@1")].startswith(rates[level])
    assert text.index(rates["span"]) < text.index(rates["both"])
    assert "strict_hit@1 by gold level" in text


def test_summary_csv_has_a_column_for_each_level(mixed: Run, rates: dict[str, str]) -> None:
    frame = mixed.summary.set_index("predictor")
    assert list(frame["gold"]) == ["both", "both"]
    for level, count in (("span", 20), ("file", 10)):
        assert f"{100 * frame.loc['local', f'strict_hit@1_{level}']:.1f}%" == rates[level]
        assert frame.loc["local", f"answerable_questions_{level}"] == count
    assert frame.loc["local", "span_questions"] == 20
    mixed.report()
    assert mixed.verify().findings == ()


def test_a_slice_has_one_gold_level_and_shows_it(mixed: Run) -> None:
    cut = mixed.where("gold=file")
    assert list(cut.by_gold) == ["file"]
    assert set(cut.summary["gold"]) == {"file"}
    assert "strict_hit@1_span" not in cut.summary
    assert {row["gold"] for _, row in mixed.questions.iterrows()} == {"span", "file", ""}
