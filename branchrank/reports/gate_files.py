"""The outcome of a regression check as JUnit XML and as Markdown.

The JUnit file contains one test case per predictor. The test case of a predictor that fails the check
contains a ``failure``, and that of an undecided predictor is ``skipped`` (an ``error`` of type ``undecided``
with ``--fail-undecided``). Its ``system-out`` names the questions that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from branchrank.core.io.files import write_text
from branchrank.core.io.printable import safe
from branchrank.core.io.table import markdown_table, markdown_text, table_of
from branchrank.runs.question_changes import KINDS, QuestionChange
from branchrank.runs.run_comparison import Pair, RunGate, worst
from branchrank.scoring.comparison import Comparison, Gate

_WORDS = {"pass": "passed", "fail": "failed", "undecided": "undecided"}
#: A predictor's name, its decision, and its comparison.
_Decided = tuple[str, Gate, Pair]


def write_gate(
    *decided: RunGate,
    junit: str | Path | None = None,
    summary: str | Path | None = None,
    fail_undecided: bool = False,
) -> None:
    """Write the decisions of :meth:`Run.gate` as JUnit XML for continuous integration, and as Markdown.

    In the JUnit file, a worse predictor is a ``failure``, and a predictor with an undecided result is
    ``skipped``, or an ``error`` if ``fail_undecided`` is true. With the decisions about several runs, each
    predictor is named with its run. Raises :class:`~branchrank.core.errors.StorageError` if a file can't be
    written.
    """
    several = len(decided) > 1
    decisions = [
        (f"{run.compared.candidate.name}: {name}" if several else name, each, pair)
        for run in decided
        for (name, each), pair in zip(run.decisions.items(), run.compared.pairs, strict=True)
    ]
    if junit is not None:
        write_text(Path(junit), _junit(decisions, fail_undecided))
    if summary is not None:
        write_text(Path(summary), _summary(decisions))


def _junit(decisions: Sequence[_Decided], fail_undecided: bool) -> str:
    """Return the result of the regression check as JUnit XML."""
    elements = {"fail": "failure", "undecided": "error" if fail_undecided else "skipped"}
    outcomes = [elements.get(each.outcome, "") for _, each, _ in decisions]
    counts = {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count("failure")),
        "errors": str(outcomes.count("error")),
        "skipped": str(outcomes.count("skipped")),
    }
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "branchrank gate", **counts})
    for (predictor, each, pair), element in zip(decisions, outcomes, strict=True):
        names = {"classname": "branchrank.gate", "name": f"{safe(predictor)} {each.comparison.measure}"}
        case = ElementTree.SubElement(suite, "testcase", names)
        if element:
            said = {"type": each.outcome, "message": safe(each.reason)}
            ElementTree.SubElement(case, element, said)
        if pair.questions:
            ElementTree.SubElement(case, "system-out").text = "\n".join(map(safe, map(str, pair.questions)))
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _summary(decisions: Sequence[_Decided]) -> str:
    """Return the result of the regression check as Markdown, for a job summary or a pull request comment."""
    table = table_of(
        "",
        decisions,
        {
            "predictor": lambda each: each[0],
            "outcome": lambda each: _WORDS[each[1].outcome],
            "measure": lambda each: each[1].comparison.measure,
            "baseline": lambda each: f"{each[1].comparison.mean_a:.4f}",
            "candidate": lambda each: f"{each[1].comparison.mean_b:.4f}",
            "difference, interval": lambda each: _difference(each[1].comparison),
            "questions": lambda each: str(each[1].comparison.n),
        },
        labels=7,
    )
    said = [
        f"- {markdown_text(name)}: {markdown_text(text)}"
        for name, each, pair in decisions
        for text in (each.reason, *map(str, pair.by_gold))
    ]
    changed = [table for name, _, pair in decisions for table in _changes(name, pair)]
    heading = f"### Search quality: {_WORDS[worst(each for _, each, _ in decisions)]}"
    return "\n".join([heading, "", markdown_table(table), "", *said, "", *changed])


def _changes(name: str, pair: Pair) -> Iterator[str]:
    """Yield a heading and a table for each kind of change of the questions."""
    columns: dict[str, Callable[[QuestionChange], str]] = {
        "id": lambda each: each.id,
        "question": lambda each: each.question,
        "gold": lambda each: each.gold,
        "first hit now": lambda each: each.first,
    }
    for kind in KINDS:
        found = [each for each in pair.questions if each.kind == kind]
        if found:
            yield f"#### {markdown_text(name)}: {kind} ({len(found)})\n"
            yield f"{markdown_table(table_of('', found, columns, labels=4))}\n"


def _difference(compared: Comparison) -> str:
    interval = "few pages"
    if compared.ci_low is not None and compared.ci_high is not None:
        interval = f"{compared.ci_low:+.4f} to {compared.ci_high:+.4f}"
    return f"{compared.difference:+.4f}, {interval}"
