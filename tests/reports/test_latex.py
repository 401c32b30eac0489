"""Tables as LaTeX: well-formed, with the right cells, whatever the names are. A LaTeX parser reads them."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pylatexenc.latex2text import LatexNodes2Text
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexMacroNode, LatexNode, LatexWalker
from support.commands import invoke
from support.made_runs import Planned, make_run

from branchrank.core.io.table import latex_text
from branchrank.library import ResultsTable, latex
from branchrank.run import Run
from branchrank.runs.results_table import results_table
from branchrank.runs.words import milliseconds
from branchrank.scoring.comparison import CompareOptions

IDS = [f"q{number}" for number in range(12)]


def a_table(*names: str, all_pairs: bool = False) -> ResultsTable:
    """Three systems on two measures: the second is surely better, the third equal to the first but on AP."""
    base = dict.fromkeys(IDS, 0.3)
    better = {key: 0.5 + number / 100 for number, key in enumerate(IDS)}
    values = ((base, base), (better, better), (base, {**base, "q0": 0.31}))
    scores = {name: {"nDCG@10": ndcg, "AP": ap} for name, (ndcg, ap) in zip(names, values, strict=True)}
    pairs = list(combinations(names, 2)) if all_pairs else [(names[0], name) for name in names[1:]]
    queries = {key: key for key in IDS}
    return results_table("made, 12 queries", scores, queries, pairs, CompareOptions())


def environments(text: str) -> dict[str, LatexEnvironmentNode]:
    """Every environment by name. The parser raises for braces and environments that do not close."""
    found: dict[str, LatexEnvironmentNode] = {}

    def visit(nodes: list[LatexNode]) -> None:
        for node in nodes:
            if isinstance(node, LatexEnvironmentNode):
                found[node.environmentname] = node
                visit(node.nodelist)

    visit(LatexWalker(text, tolerant_parsing=False).get_latex_nodes()[0])
    return found


def cells(text: str) -> list[list[str]]:
    """The lines of the tabular, each cell as LaTeX."""
    body = environments(text)["tabular"].latex_verbatim()
    lines = re.findall(r"^ {4}(.*) \\\\$", body, re.MULTILINE)
    return [[cell.strip() for cell in re.split(r"(?<!\\)&", line)] for line in lines]


def test_the_table_has_a_line_for_each_system_its_best_bold_and_marked() -> None:
    made = a_table("bm25", "dense", "local")
    text = latex(made)
    assert set(environments(text)) == {"table", "tabular"}
    low, high, ap = (
        f"{each.low:.4f}--{each.high:.4f}"
        for each in (*(of.means["nDCG@10"] for of in made.systems[:2]), made.systems[2].means["AP"])
    )
    assert cells(text) == [
        ["System", "nDCG@10", r"95\% interval", "AP", r"95\% interval"],
        ["bm25", "0.3000", low, "0.3000", low],
        ["dense", *2 * (r"\textbf{0.5550}\rlap{$^{\dagger}$}", high)],
        ["local", "0.3000", low, "0.3008", ap],
    ]
    assert r"\begin{tabular}{lrrrr}" in text, "names to the left, numbers to the right"
    for rule in ("toprule", "midrule", "bottomrule"):
        assert text.count(f"\\{rule}") == 1


def test_the_caption_names_the_test_and_the_correction() -> None:
    [caption] = re.findall(r"\\caption\{(.*)\}", latex(a_table("bm25", "dense", "local")))
    said = LatexNodes2Text().latex_to_text(caption)
    assert said == (
        "made, 12 queries. Bold: the highest mean. †: differs from bm25 (paired sign-flip randomization "
        "test; two-sided, Holm-corrected for 2 comparisons per measure, adjusted p below 0.05)."
    )


def test_all_pairs_are_marked_with_letters() -> None:
    text = latex(a_table("bm25", "dense", "local", all_pairs=True))
    assert [line[:3] for line in cells(text)] == [
        ["", "System", "nDCG@10"],
        ["a", "bm25", r"0.3000\rlap{$^{\mathrm{b}}$}"],
        ["b", "dense", r"\textbf{0.5550}\rlap{$^{\mathrm{a,c}}$}"],
        ["c", "local", r"0.3000\rlap{$^{\mathrm{b}}$}"],
    ]
    assert "A letter: the mean" in text


@given(st.text(st.characters(codec="utf-8"), max_size=12))
def test_any_name_is_escaped_and_fills_one_cell(name: str) -> None:
    text = latex(a_table(f"x{name}", "dense", "local"))
    lines = cells(text)
    assert {len(line) for line in lines} == {5}
    assert [line[0] for line in lines if line[0].startswith("x")] == [latex_text(f"x{name}").strip()]
    assert set(environments(text)) == {"table", "tabular"}


def test_markup_is_escaped() -> None:
    hostile = r"50%_a\b{c}#$&~"
    assert LatexNodes2Text(math_mode="text").latex_to_text(latex_text(hostile)) == hostile
    assert latex_text('^<>|"') == (r"\textasciicircum{}\textless{}\textgreater{}\textbar{}\textquotedbl{}")
    assert not [
        node
        for node in LatexWalker(latex_text(r"\input{/etc/passwd}")).get_latex_nodes()[0]
        if isinstance(node, LatexMacroNode) and node.macroname == "input"
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(
        tmp_path_factory.mktemp("made"), [Planned("under_score", 0.3), Planned("good", 0.9)]
    ).directory


def test_a_runs_report_has_a_latex_table(run: Path, tmp_path: Path) -> None:
    result = invoke("report", run, "--latex", tmp_path / "t.tex")
    assert result.exit_code == 0, result.output
    assert f"written: {tmp_path / 't.tex'}" in result.output
    lines = cells((tmp_path / "t.tex").read_text())
    assert lines[0][:2] == ["System", r"strict\_hit@1"]
    assert [line[0] for line in lines[1:]] == [r"under\_score", "good"]
    assert lines[2][1].startswith(r"\textbf{")
    assert lines[2][1].endswith(r"\rlap{$^{\dagger}$}")
    shown = Run.load(run).summary_row("good")
    mean = shown.estimates["strict_hit@1"]
    assert mean is not None
    assert lines[2][2] == f"{mean.low:.4f}--{mean.high:.4f}"
    assert lines[0][-2:] == ["p50 ms", "p95 ms"]
    assert lines[2][-2:] == [milliseconds(shown.latency_p50_ms), milliseconds(shown.latency_p95_ms)]


def test_a_comparison_of_runs_has_a_latex_table(run: Path, tmp_path: Path) -> None:
    words = ("compare", run, run, "--predictor", "good", "--baseline-predictor", "under_score")
    result = invoke(*words, "--measure", "relaxed_RR@5", "--latex", tmp_path / "t.tex")
    assert result.exit_code == 0, result.output
    heading, first, second = cells((tmp_path / "t.tex").read_text())
    assert heading[:4] == ["System", r"strict\_hit@1", r"95\% interval", r"relaxed\_RR@5"]
    assert heading[5:] == ["p50 ms", "p95 ms"]
    low, high = map(float, second[2].split("--"))
    assert low < float(second[1][len(r"\textbf{") :].partition("}")[0]) < high
    assert r"on strict\_hit@1, the only" in (tmp_path / "t.tex").read_text()
    assert r"$^" not in second[3]
    assert (first[0], second[0]) == (r"under\_score (baseline)", "good (candidate)")
    assert second[1].endswith(r"\rlap{$^{\dagger}$}")
