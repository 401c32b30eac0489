"""``report.md``: what it says, and that it says the same again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from support.made_runs import Planned, make_questions, make_run

from branchrank.core.io.table import Styled, Table
from branchrank.reports.blocks import Callout, Plot, Report, ReportSection, markdown
from branchrank.reports.browser import WRONG
from branchrank.reports.content import heading, report_content
from branchrank.reports.verify import verify
from branchrank.reports.writing import write_report
from branchrank.run import Run
from branchrank.runs.words import percent
from branchrank.scoring.measures import named_measure
from branchrank.search.llm.ledger import ModelPrice, PriceTable


def table(text: str, caption: str) -> list[dict[str, str]]:
    """The rows of the table whose caption begins with these words."""
    [found] = re.findall(rf"^{re.escape(caption)}.*:\n\n((?:\|.*\n)+)", text, re.MULTILINE)
    lines = found.splitlines()
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


@pytest.fixture(scope="module")
def paired(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in which one candidate is plainly worse and another much the same."""
    return make_run(
        tmp_path_factory.mktemp("paired"),
        (Planned("local", 0.9), Planned("twin", 0.85), Planned("poor", 0.2)),
    )


@pytest.fixture(scope="module")
def text(paired: Run) -> str:
    return markdown(report_content(paired))


def test_the_same_files_give_the_same_bytes(paired: Run, text: str) -> None:
    written = {path.name: path.read_bytes() for path in write_report(paired)}
    assert written["report.md"].decode() == text
    assert {path.name: path.read_bytes() for path in write_report(paired)} == written
    plots = ("differences", "frontier", "losses")
    drawn = {f"{name}.svg" for name in plots}
    assert set(written) == {"report.md", "report.html", *drawn}


def test_with_fewer_than_50_questions_the_heading_says_pilot(tmp_path: Path) -> None:
    small = make_run(tmp_path / "a", questions=make_questions(49), latency_sample=0)
    assert heading(small) == "Pilot: made, 49 questions"
    written = markdown(report_content(small))
    assert written.startswith("# Pilot: made, 49 questions\n")
    assert "- Warning: This is a pilot" in written
    large = make_run(tmp_path / "b", questions=make_questions(50), latency_sample=0)
    assert heading(large) == "made, 50 questions"
    questions = make_questions(49, unanswerable=3)
    mixed = make_run(tmp_path / "c", questions=questions, latency_sample=0)
    assert heading(mixed) == "Pilot: made, 52 questions, 3 of them unanswerable"
    assert "Hit rates over the 49 questions with an answer" in markdown(report_content(mixed))


@pytest.mark.parametrize("count", [49, 50])
def test_a_small_report_opens_with_the_verdict_a_table_and_the_misses(tmp_path: Path, count: int) -> None:
    made = make_run(
        tmp_path, (Planned("local", 0.6), Planned("poor", 0.4, fails="q0001")), make_questions(count)
    )
    report = report_content(made)
    titles = [section.title for section in report.sections]
    small = count < 50
    assert [section.title for section in report.sections if not section.folded] == (
        ["Result", "Questions"] if small else titles
    )
    assert titles.index("Questions") == (1 if small else 2)
    text = markdown(report)
    assert text.index("## Questions") < text.index("![Differences") if small else True
    found = {}
    for what in WRONG[:5]:
        caption = f"{what.capitalize()} ("
        rows = table(text, caption) if caption in text else []
        assert not rows or small
        assert not rows or re.search(rf"^{re.escape(caption)}{len(rows)}\)", text, re.MULTILINE)
        found |= {row["question"]: row for row in rows}
    wrong = {
        row.question_id: made.scores.questions[row.question_id] for row in made.rows if row.first_gold != 1
    }
    assert found.keys() == ({each.question for each in wrong.values()} if small else set())
    for key, question in wrong.items() if small else ():
        shown = found[question.question]
        local, poor = (made.scores.rows_of(name, key)[0] for name in made.predictors)
        assert shown["local"] == str(local.first_gold or "page 1")
        assert shown["poor"] == ("failed" if key == "q0001" else str(poor.first_gold or "page 1"))
        assert shown["gold"] == question.gold[0].citation
        assert shown["first hit of local"] == local.hits[0].span.citation
        better = (local.first_gold or 9) > (poor.first_gold or 9)
        assert ("found by poor at" in shown["what would have found it"]) == better


def test_every_rate_has_its_interval(paired: Run, text: str) -> None:
    rows = table(text, "Hit rates over the 60 questions with an answer, with 95% intervals")
    rates = {row.predictor: row.rates["strict_hit@1"] for row in paired.summary_rows}
    for row in rows:
        rate, low, high = map(float, re.findall(r"[\d.]+", row["strict hit@1"].replace("%", " ")))
        name = row["predictor"].strip("*")
        assert rate == pytest.approx(100 * (rates[name] or 0.0), abs=0.05)
        assert low < rate < high


def test_verdicts_are_sentences_with_numbers(text: str) -> None:
    assert "- **poor vs local: worse.** strict_hit@1 " in text
    assert re.search(r"\*\*twin vs local: (inconclusive|too few).*\*\*.*60 questions can detect", text)
    [poor] = [
        row for row in table(text, "strict_hit@1 against local, over the 60") if row["candidate"] == "poor"
    ]
    wins, ties, losses = map(int, poor["wins, ties, losses"].split("/"))
    assert wins + ties + losses == 60
    assert wins < losses
    assert poor["adjusted p"] == "below 0.0001"
    assert re.fullmatch(r"\d+ of \d+", poor["deciding labels"])


def test_nothing_is_bold_without_a_passed_test(text: str) -> None:
    assert not re.search(r"^\| \*\*", text, re.MULTILINE)
    assert "No predictor is shown in bold" in text


@pytest.mark.parametrize(("baseline", "winner"), [("poor", "local"), ("local", "local")])
def test_the_winner_that_passed_is_bold(tmp_path: Path, baseline: str, winner: str) -> None:
    made = make_run(
        tmp_path, (Planned("local", 0.9), Planned("poor", 0.2)), baseline=baseline, latency_sample=0
    )
    written = markdown(report_content(made))
    assert set(re.findall(r"^\| \*\*(\w+)\*\*", written, re.MULTILINE)) == {winner}
    whom = "every baseline" if winner != baseline else "every other predictor"
    assert f"The predictor in bold is significantly better than {whom}, after adjustment" in written


def test_passage_sizes_are_shown_beside_strict_rates(paired: Run, text: str) -> None:
    for row in table(text, "Hit rates, and mean length of the first five hits, over the 60 questions"):
        assert row["lines per hit"] == "3.0"
        assert row["characters per hit"] == "52"
        assert row["span precision"].endswith("%")


def test_llm_cost_by_predictor_and_stage_with_prices(tmp_path: Path) -> None:
    prices = PriceTable(
        date="2026-01-31", currency="EUR", models={"tiny": ModelPrice(prompt=2.0, completion=10.0)}
    )
    arms = (Planned("local", 0.6), Planned("reranked", 0.8, llm="tiny"))
    text = markdown(report_content(make_run(tmp_path, arms, prices=prices, repeats=2)))
    free, paid = table(text, "LLM use by predictor, over all queries (including unanswerable questions)")
    assert (free["queries"], paid["queries"]) == ("60", "120")
    assert (free["calls per query"], free["tokens per query"]) == ("0.00", "0")
    assert (paid["calls per query"], paid["tokens per query"]) == ("1.00", "1050")
    assert paid["from cache"] == "120"
    assert paid["EUR per query"] == "0.002500"
    assert table(text, "LLM use by stage, over all queries of the predictor")[0]["stage"] == "rerank"
    assert "Prices as of 2026-01-31." in text
    [flips] = table(text, "Share of the 60 questions with an answer")
    assert 0 < float(flips["flip rate"].strip("%")) < 100
    assert "rerank: timeout" in text


def test_failures_are_listed(tmp_path: Path) -> None:
    text = markdown(
        report_content(make_run(tmp_path, (Planned("local", 0.6, fails="q0007"),), latency_sample=0))
    )
    assert "1 of 60 queries failed; each counts as a miss." in text
    [row] = table(text, "Answers to the 60 questions with an answer, by the stage at which the gold was lost")
    assert (row["answers"], row["failed"]) == ("60", "1")
    assert sum(int(value) for name, value in row.items() if name not in ("predictor", "answers")) == 60
    assert r"local, q0007: RuntimeError: the kettle is \| \<b\>empty\</b\>" in text


def test_slices_are_made_by_kind_and_by_gold_position(paired: Run, text: str) -> None:
    for slice_name in ("kind", "difficulty", "depth of the gold"):
        rows = table(text, f"By {slice_name}, with the number of questions in each slice")
        assert [row["predictor"] for row in rows] == ["local", "twin", "poor"] * 2
        assert sum(int(re.findall(r"\((\d+)\)", value)[0]) for value in list(rows[0])[2:]) == 60
    kinds = table(text, "By kind, with the number of questions in each slice")[0]
    assert list(kinds)[2:] == ["howto (40)", "lookup (20)"]
    rate = (40 * float(kinds["howto (40)"].strip("%")) + 20 * float(kinds["lookup (20)"].strip("%"))) / 60
    assert rate == pytest.approx(100 * paired.scores.average("local", named_measure("strict_hit@1")), abs=0.1)
    assert "By document size" not in text  # all pages are alike


def test_unanswerable_questions_give_risk_and_coverage(tmp_path: Path) -> None:
    made = make_run(tmp_path, (Planned("local", 0.6),), make_questions(40, unanswerable=10), latency_sample=0)
    report = report_content(made)
    [row] = table(markdown(report), "10 of 50 questions have no answer in the corpus")
    assert row["unanswerable with hits"] == "10"
    right = made.scores.average("local", named_measure("strict_hit@1")) * 40
    assert row["risk at 100% coverage"] == f"{100 * (1 - right / 50):.1f}%"
    [section] = [each for each in report.sections if each.title == "Unanswerable questions"]
    [plot] = [block for block in section.blocks if isinstance(block, Plot)]
    points = plot.spec["data"]["values"]
    assert {point["predictor"] for point in points} == {"local"}
    last = max(points, key=lambda point: point["coverage"])
    assert (last["coverage"], last["risk"]) == (1.0, pytest.approx(1 - right / 50))
    assert row["risk at 50% coverage"] == percent(
        next(point["risk"] for point in points if point["coverage"] == 0.5)
    )


def test_repeats_count_an_unanswerable_question_once(tmp_path: Path) -> None:
    questions = make_questions(40, unanswerable=10)
    made = make_run(tmp_path, (Planned("llm", 0.6, llm="model"),), questions, repeats=3, latency_sample=0)
    [row] = table(markdown(report_content(made)), "10 of 50 questions have no answer in the corpus")
    assert row["unanswerable with hits"] == "10.0"
    right = made.scores.average("llm", named_measure("strict_hit@1")) * 40
    assert row["risk at 100% coverage"] == f"{100 * (1 - right / 50):.1f}%"


@pytest.mark.parametrize(
    "nasty",
    [
        "a|b",
        "<b>x</b>",
        "**x**",
        "_x_",
        "`x`",
        "[x](y)",
        "![x](y)",
        "# x",
        "- x",
        "a\nb",
        "\x1b[31m",
        "~~x~~",
        "&lt;",
    ],
)
def test_text_is_escaped(nasty: str) -> None:
    report = Report(
        title=nasty,
        facts=(nasty,),
        sections=(
            ReportSection(
                title="x",
                blocks=(
                    nasty,
                    Callout(lines=((nasty,), (Styled("x"), nasty)), cautions=(nasty,)),
                    Table(caption="c", headings=("a", "b"), rows=((nasty, Styled(nasty)),)),
                ),
            ),
        ),
    )
    rendered = (
        MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown(report))
    )
    tags = set(re.findall(r"<(\w+)", rendered))
    assert tags == {"h1", "h2", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "strong"}
    assert rendered.count("<td") == 2
    assert "\x1b" not in rendered


def test_the_command_is_quoted_completely(tmp_path: Path) -> None:
    command = "branchrank benchmark --x '```'"
    made = make_run(tmp_path, questions=make_questions(3), command=command, latency_sample=0)
    assert "````\nbranchrank benchmark --x '```'\n````" in markdown(report_content(made))


def test_a_run_without_wording_gives_reports_without_wording_or_text(tmp_path: Path) -> None:
    made = make_run(tmp_path, questions=make_questions(10), latency_sample=0, question_text="hash")
    for path in write_report(made):
        assert "kettle" not in path.read_text(encoding="utf-8")
    assert verify(made.directory).findings == ()


def test_a_verdict_of_holms_second_step_depends_on_some_labels(tmp_path: Path) -> None:
    arms = (Planned("local", 0.3), Planned("far", 0.95), Planned("near", 0.45))
    made = make_run(tmp_path, arms, alpha=0.08, latency_sample=0)
    far, near = made.judgment.comparisons
    assert (far.verdict, near.verdict) == ("better", "better")
    assert near.alpha / near.family < near.p < near.alpha
    text = markdown(report_content(made))
    (line,) = [line for line in text.splitlines() if line.startswith("| near | better")]
    carrying = line.rstrip("| ").rsplit("| ", 1)[1]
    assert carrying == f"1 of {near.wins}"
