"""``compare-trec``: means as ir-measures has them, tests worked out by brute force, wrong files."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import ir_measures
import pytest
from support.commands import invoke

from branchrank.library import CompareOptions, compare_trec

QUERIES = [f"q{number}" for number in range(12)]
DOCUMENTS = [f"d{number}" for number in range(30)]
MEASURES = ("nDCG@10", "AP", "R@5")
AP = CompareOptions(measures=("AP",))


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``qrels.txt`` of 12 queries, and the runs ``weak``, ``better`` and ``best``."""
    folder, draw = tmp_path_factory.mktemp("runs"), random.Random(3)
    grades = {query: {each: draw.choice((0, 0, 1, 2)) for each in DOCUMENTS[:15]} for query in QUERIES}
    write(
        folder / "qrels.txt",
        *(f"{query} 0 {each} {grade}" for query in QUERIES for each, grade in grades[query].items()),
    )
    for name, weight in (("weak", 0.2), ("better", 0.8), ("best", 3.0)):
        lines = [
            f"{query} Q0 {each} 1 {weight * grades[query].get(each, 0) + draw.random():.3f} x"
            for query in QUERIES
            for each in DOCUMENTS
        ]
        write(folder / f"{name}.run", *lines)
    return folder


def runs(folder: Path) -> list[Path]:
    return [folder / f"{name}.run" for name in ("weak", "better", "best")]


def theirs(folder: Path, name: str, measure: str) -> dict[str, float]:
    """Each query's value by ir-measures."""
    found = ir_measures.iter_calc(
        [ir_measures.parse_measure(measure)],
        ir_measures.read_trec_qrels(str(folder / "qrels.txt")),
        ir_measures.read_trec_run(str(folder / f"{name}.run")),
    )
    return {each.query_id: each.value for each in found}


def brute_force_p(differences: list[float]) -> float:
    """The share of all sign patterns whose total is at least as far from 0 as the observed one."""
    observed = abs(sum(differences))
    totals = [
        abs(sum(sign * each for sign, each in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(total >= observed - 1e-9 for total in totals) / len(totals)


def test_means_and_tests_and_corrections_match_reference_implementations(folder: Path) -> None:
    table = compare_trec(folder / "qrels.txt", runs(folder), CompareOptions(measures=MEASURES))
    assert (table.measures, table.questions, table.baselines) == (tuple(MEASURES), 12, ("weak",))
    for measure in MEASURES:
        values = {each.name: theirs(folder, each.name, measure) for each in table.systems}
        for system in table.systems:
            mean = sum(values[system.name].values()) / 12
            assert system.means[measure].value == pytest.approx(mean, abs=5e-5)
        found = [each for each in table.comparisons if each.measure == measure]
        assert [each.candidate for each in found] == ["better", "best"]
        expected = [
            brute_force_p([values[each.candidate][query] - values["weak"][query] for query in QUERIES])
            for each in found
        ]
        assert [each.p for each in found] == pytest.approx(expected)
        small, large = sorted(expected)
        holm = {large: max(2 * small, large), small: 2 * small}
        assert [each.p_adjusted for each in found] == pytest.approx([min(holm[p], 1) for p in expected])
        assert {each.clusters for each in found} == {12}  # the query is the unit


def test_one_judged_query_is_counted_in_the_singular(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\n")
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"q1 Q0 d1 1 0.5 {name}\n")
    result = invoke("compare-trec", tmp_path / "qrels.txt", tmp_path / "one", tmp_path / "two", "-m", "AP")
    assert result.output.startswith("qrels.txt, 1 judged query\n"), result.output


def test_the_command_prints_the_table_and_each_comparison(folder: Path) -> None:
    result = invoke("compare-trec", folder / "qrels.txt", *runs(folder), "-m", "AP")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("qrels.txt, 12 judged queries\n\nsystem  AP\n")
    table = compare_trec(folder / "qrels.txt", runs(folder), AP)
    lines = result.output.splitlines()
    for system in table.systems:
        marks = table.marks(system.name, "AP")
        assert f"{system.name.ljust(6)}  {system.means['AP'].value:.4f}{marks}" in lines
    assert table.marks("best", "AP") == "†"
    assert table.marks("weak", "AP") == ""
    [heading] = [line for line in lines if line.startswith("AP vs weak")]
    assert heading.split()[3:] == ["diff.", "interval", "W/T/L", "d_z", "adj.", "p", "verdict"]
    *_, line = [line for line in lines if line.startswith("best ")]
    assert line.endswith("better")
    [best] = [each for each in table.comparisons if each.candidate == "best"]
    assert f"  {best.d_z:.2f}  " in line
    assert result.output == f"{table}\n"
    assert "Holm-corrected for 2 comparisons" in table.test
    alone = compare_trec(folder / "qrels.txt", runs(folder)[:2], AP)
    assert "Holm" not in alone.test


@pytest.mark.parametrize("baseline", ["best", "PATH"])
def test_the_baseline_is_named_by_its_table_name_or_its_path(folder: Path, baseline: str) -> None:
    named = str(folder / "best.run") if baseline == "PATH" else baseline
    table = compare_trec(folder / "qrels.txt", runs(folder), CompareOptions(measures=("AP",), baseline=named))
    assert [(each.candidate, each.baseline) for each in table.comparisons] == [
        ("weak", "best"),
        ("better", "best"),
    ]
    assert all(each.difference < 0 and each.p_adjusted < 0.05 for each in table.comparisons)


def test_all_pairs_are_one_family_and_marked_with_letters(folder: Path) -> None:
    table = compare_trec(folder / "qrels.txt", runs(folder), CompareOptions(measures=("AP",), all_pairs=True))
    assert [(each.candidate, each.baseline, each.family) for each in table.comparisons] == [
        ("better", "weak", 3),
        ("best", "weak", 3),
        ("best", "better", 3),
    ]
    differing = {
        frozenset((each.candidate, each.baseline))
        for each in table.comparisons
        if each.verdict in ("better", "worse")
    }
    letters = {"weak": "a", "better": "b", "best": "c"}
    for name in letters:
        others = [letters[other] for other in letters if frozenset((name, other)) in differing]
        assert table.marks(name, "AP") == ",".join(others)
    assert frozenset(("best", "weak")) in differing
    assert "letters: a mean" in str(table)


def test_runs_with_the_same_file_name_are_named_by_path(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "weak.run"
    other.write_text((folder / "best.run").read_text())
    table = compare_trec(folder / "qrels.txt", [folder / "weak.run", other], AP)
    assert [each.name for each in table.systems] == [str(folder / "weak.run"), str(other)]


def test_a_run_that_lacks_a_query_is_refused_or_scores_0(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "best.run").read_text().splitlines()
    cut = write(tmp_path / "cut.run", *(line for line in lines if not line.startswith(("q3 ", "q7 "))))
    words = ("compare-trec", folder / "qrels.txt", folder / "weak.run", cut, "-m", "AP")
    result = invoke(*words)
    assert result.exit_code == 3
    assert "2 of 12 judged queries (the first: 'q3')" in result.stderr
    assert "fix: --missing-is-zero" in result.stderr
    assert invoke(*words, "--missing-is-zero").exit_code == 0
    table = compare_trec(
        folder / "qrels.txt",
        [folder / "weak.run", cut],
        CompareOptions(measures=("AP",), missing_is_zero=True),
    )
    kept = [value for query, value in theirs(folder, "best", "AP").items() if query not in ("q3", "q7")]
    assert table.systems[1].means["AP"].value == pytest.approx(sum(kept) / 12, abs=5e-5)


def test_unjudged_queries_change_nothing(folder: Path, tmp_path: Path) -> None:
    more = write(tmp_path / "best.run", *(folder / "best.run").read_text().splitlines(), "q99 Q0 d1 1 9 x")
    found = compare_trec(folder / "qrels.txt", [folder / "weak.run", more], AP)
    plain = compare_trec(folder / "qrels.txt", [folder / "weak.run", folder / "best.run"], AP)
    assert found == plain


def test_missing_queries_are_not_unjudged_documents(folder: Path) -> None:
    short = write(folder / "short.run", *(folder / "best.run").read_text().splitlines()[: len(DOCUMENTS) * 6])
    options = CompareOptions(measures=("P@5",), missing_is_zero=True)
    found = compare_trec(folder / "qrels.txt", [folder / "weak.run", short], options)
    six = {query for query, *_ in map(str.split, short.read_text().splitlines())}
    values = [value for query, value in theirs(folder, "best", "Judged@5").items() if query in six]
    assert f"short {sum(values) / 6:.4f}" in found.judged[0]


def test_runs_that_cannot_be_compared_are_refused(folder: Path) -> None:
    qrels, weak = folder / "qrels.txt", folder / "weak.run"
    for words, message in (
        ((weak,), "only one run, so there is nothing to compare"),
        ((weak, weak), "only one run, so there is nothing to compare"),
        ((weak, folder / "best.run", "--baseline", "bets"), "did you mean `best`?"),
        ((weak, folder / "best.run", "-m", "AQ"), "unknown measure 'AQ'"),
    ):
        result = invoke("compare-trec", qrels, *words)
        assert result.exit_code == 2, result.output
        assert message in result.stderr
