"""What would have found the gold of a miss, as ``branchrank explain`` and the report print it."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copytree

import pytest
from support.commands import benchmark, invoke, json_lines, make_project, write_lines

from branchrank.reports.verify import verify
from branchrank.run import Run
from branchrank.runs.directory import GOLD
from branchrank.runs.explanation import Clue, clues

PAGES = 12
#: The words of each question that its page does not have, by the question's own words for them.
QUESTIONS = {
    "kettle with Cloudflare?": ["Cloudflare"],
    "how is the kettle's “thermostat” boiling": ["thermostat"],
    "which kettles boiled, descaling-free": ["descaling-free"],
    "what should one do when the kettle boils": [],
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages that BM25 ranks in their order, for questions about the last ones."""
    pages = {
        f"p{number:02}.md": f"# Part {number}\n\nboil {(PAGES - number) * 'kettle '}{number * 'tea '}\n"
        for number in range(PAGES)
    }
    folder = make_project(tmp_path_factory.mktemp("clues"), pages)
    asked = [
        {
            "id": f"q{number:02}-{place}",
            "question": text,
            "source_file": f"p{number:02}.md",
            "answer_line_start": 3,
            "answer_line_end": 3,
        }
        for number in (0, 2, 7, 11)
        for place, text in enumerate(QUESTIONS)
    ]
    write_lines(folder / "data" / "benchmark" / "questions.jsonl", asked)
    return folder


SYSTEMS = ("--predictor", "bm25", "--predictor", "dense", "--predictor", "local")


@pytest.fixture(scope="module")
def run(project: Path) -> Run:
    return Run.load(benchmark(project, *SYSTEMS, "--top-k", 5))


def of_kind(run: Run, kind: str) -> list[tuple[str, str, Clue]]:
    found = [(row.question_id, row.predictor, each) for row in run.rows for each in clues(run, row)]
    return [each for each in found if each[2].kind == kind]


def test_the_named_k_keeps_the_gold(project: Path, run: Run) -> None:
    kept = of_kind(run, "kept")
    assert {predictor for _, predictor, _ in kept} >= {"bm25", "local"}
    for k in sorted({clue.rank for *_, clue in kept}):
        deeper = Run.load(benchmark(project, *SYSTEMS, "--top-k", k))
        ranks = {(row.question_id, row.predictor): row.first_gold for row in deeper.rows}
        for question, predictor, clue in kept:
            if clue.rank == k:
                assert ranks[question, predictor] == k > 5, (question, predictor)


def test_branches_and_systems_that_ranked_the_gold_higher_are_named(run: Run) -> None:
    rows = {(row.question_id, row.predictor): row for row in run.rows}
    found = of_kind(run, "found")
    assert {clue.name for *_, clue in found} >= {"bm25", "local"}
    for question, predictor, clue in found:
        own = rows[question, predictor].first_gold
        assert clue.rank <= 5
        assert own is None or clue.rank < own
        branch = rows[question, "local"].gold_ranks.get(f"{clue.name}(chunks)")
        assert clue.rank in (rows[question, clue.name].first_gold, branch)


@pytest.mark.parametrize("place", range(len(QUESTIONS)))
def test_content_words_that_the_golds_page_lacks_are_named(run: Run, place: int) -> None:
    expected = list(QUESTIONS.values())[place]
    [question] = [key for key in run.facts if key == f"q11-{place}"]
    facts = run.facts[question]
    assert list(facts.unsaid or ()) == expected
    printed = invoke("explain", run.directory, question, "--predictor", "bm25").output
    assert re.findall("the page never says '([^']*)'", printed) == expected
    assert re.findall(r"lost at fusion: k=(\d+) keeps it", printed) == ["12"]


def test_a_first_hit_that_is_right_needs_no_clue(run: Run) -> None:
    right = [row for row in run.rows if row.first_gold == 1]
    assert right
    assert not any(clues(run, row) for row in right)


def test_a_run_without_the_questions_text_keeps_no_word_of_it(project: Path) -> None:
    made = benchmark(project, "--predictor", "bm25", "--question-text", "hash", "--top-k", 5)
    texts = [path.read_text(encoding="utf-8") for path in made.iterdir() if path.is_file()]
    assert not any(word in text for text in texts for word in ("Cloudflare", "thermostat", "descaling"))
    assert verify(made).findings == ()


def test_a_run_of_an_older_version_without_these_words_is_still_true(run: Run, tmp_path: Path) -> None:
    assert verify(run.directory).findings == ()
    older = copytree(run.directory, tmp_path / "older")
    lines = [{k: v for k, v in line.items() if k != "unsaid"} for line in json_lines(older / GOLD)]
    write_lines(older / GOLD, lines)
    found = {(each.file, each.message) for each in verify(older).findings}
    assert not any("differs from the corpus" in message for _, message in found)
