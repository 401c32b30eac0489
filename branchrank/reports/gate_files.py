"""The outcome of a regression check as JUnit XML and as Markdown.

The JUnit file contains one test case per predictor. The test case of a predictor that fails the check
contains a ``failure``, and that of an undecided predictor an ``error`` of type ``undecided``. ``branchrank
gate`` exits with code 10 if no predictor fails and at least one is undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from branchrank.core.io.files import write_text
from branchrank.core.io.printable import safe
from branchrank.core.io.table import markdown_table, markdown_text, table_of
from branchrank.runs.run_comparison import RunGate, worst
from branchrank.scoring.comparison import Comparison, Gate

_ELEMENTS = {"fail": "failure", "undecided": "error"}
_WORDS = {"pass": "passed", "fail": "failed", "undecided": "undecided"}


def write_gate(*decided: RunGate, junit: str | Path | None = None, summary: str | Path | None = None) -> None:
    """Write the decisions of :meth:`Run.gate` as JUnit XML for continuous integration, and as Markdown.

    In the JUnit file, a worse predictor is a ``failure``, and a predictor with an undecided result is an
    ``error``. With the decisions about several runs, each predictor is named with its run. Raises
    :class:`~branchrank.core.errors.StorageError` if a file can't be written.
    """
    several = len(decided) > 1
    decisions = [
        (f"{run.compared.candidate.name}: {name}" if several else name, each)
        for run in decided
        for name, each in run.decisions.items()
    ]
    if junit is not None:
        write_text(Path(junit), _junit(decisions))
    if summary is not None:
        write_text(Path(summary), _summary(decisions))


def _junit(decisions: Sequence[tuple[str, Gate]]) -> str:
    """Return the result of the regression check as JUnit XML."""
    outcomes = [each.outcome for _, each in decisions]
    counts = {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count("fail")),
        "errors": str(outcomes.count("undecided")),
    }
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "branchrank gate", **counts})
    for predictor, each in decisions:
        names = {"classname": "branchrank.gate", "name": f"{safe(predictor)} {each.comparison.measure}"}
        case = ElementTree.SubElement(suite, "testcase", names)
        if each.outcome != "pass":
            said = {"type": each.outcome, "message": safe(each.reason)}
            ElementTree.SubElement(case, _ELEMENTS[each.outcome], said)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _summary(decisions: Sequence[tuple[str, Gate]]) -> str:
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
    reasons = [f"- {markdown_text(name)}: {markdown_text(each.reason)}" for name, each in decisions]
    heading = f"### Search quality: {_WORDS[worst(each for _, each in decisions)]}"
    return "\n".join([heading, "", markdown_table(table), "", *reasons, ""])


def _difference(compared: Comparison) -> str:
    interval = "few pages"
    if compared.ci_low is not None and compared.ci_high is not None:
        interval = f"{compared.ci_low:+.4f} to {compared.ci_high:+.4f}"
    return f"{compared.difference:+.4f}, {interval}"
