"""How many labels carry a verdict that Holm's correction reached at a later step."""

from pathlib import Path

from support.made_runs import Planned, make_run

from branchrank.report.blocks import markdown
from branchrank.report.content import report_content


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
