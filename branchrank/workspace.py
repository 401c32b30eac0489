"""The library's door: a finished run, with everything that the commands do with one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from branchrank.errors import UsageError
from branchrank.measures.verdicts import DELTA
from branchrank.runs.cutting import cut_run
from branchrank.runs.directory import RUN_JSON
from branchrank.runs.run import RunData, load_run

if TYPE_CHECKING:
    import pandas as pd

    from branchrank.measures.verdicts import Comparison
    from branchrank.report.verify import Verification
    from branchrank.runs.explanation import Explanation
    from branchrank.runs.run_comparison import RunComparison, RunGate


class Run(RunData):
    """A finished benchmark.

    Its tables are pandas DataFrames, computed from the rows; a notebook shows it as a table and a plot.

    >>> run = Run.load("reports/examples/sample")
    >>> run
    <Run sample: 161 questions, local, pageindex, hybrid>
    >>> list(run.summary[["predictor", "strict_hit@1"]].columns)
    ['predictor', 'strict_hit@1']
    >>> run.compare("hybrid", "local").candidate
    'hybrid'
    """

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read a finished run from its directory.

        Raises :class:`~branchrank.errors.RunError` when it is missing, unfinished, damaged or was made by
        another version.
        """
        return cls.of(load_run(Path(directory)))

    @classmethod
    def of(cls, data: RunData) -> Self:
        """The same run with these methods."""
        return cls(**{field.name: getattr(data, field.name) for field in fields(data)})

    def __repr__(self) -> str:
        cut = f", {' and '.join(self.conditions)}" if self.conditions else ""
        return f"<Run {self.directory.name}: {len(self.asked)} questions{cut}, {', '.join(self.predictors)}>"

    def _repr_html_(self) -> str:
        from branchrank.report.notebook import run_html

        return run_html(self)

    def print(self) -> None:
        """Print the summary table and the verdicts, as ``branchrank show`` does."""
        from branchrank.report.terminal import print_summary

        print_summary(self)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row per predictor, the columns of ``summary.csv``: rates in 0..1, times in milliseconds."""
        from branchrank.runs.frames import summary_frame

        return summary_frame(self)

    @cached_property
    def questions(self) -> pd.DataFrame:
        """One row per question, predictor and repeat, the columns of ``questions.csv``."""
        from branchrank.runs.frames import questions_frame

        return questions_frame(self)

    @cached_property
    def calls(self) -> pd.DataFrame:
        """One row per logical LLM call, the columns of ``llm_calls.csv``."""
        from branchrank.runs.frames import calls_frame

        return calls_frame(self)

    @cached_property
    def timings(self) -> pd.DataFrame:
        """One row per timed query and stage, the columns of ``timings.csv``."""
        from branchrank.runs.frames import timings_frame

        return timings_frame(self)

    def compare(
        self, candidate: str, baseline: str = "", measure: str = "", *, delta: float | None = None
    ) -> Comparison:
        """Compare two predictors of this run, question by question.

        A positive ``difference`` means that the candidate is better. ``baseline``, ``measure`` and ``delta``
        default to the declared ones. A comparison that the run declared is returned as its report has it,
        adjusted for all candidates; any other one is a family of its own.

        Raises :class:`~branchrank.errors.UsageError` for an unknown predictor or measure.
        """
        from branchrank.runs.run_comparison import compare_within

        return compare_within(self, candidate, baseline, measure=measure, delta=delta)

    def compare_with(
        self,
        baseline: RunData,
        *,
        predictor: str = "",
        baseline_predictor: str = "",
        measure: str = "",
        delta: float = DELTA,
    ) -> RunComparison:
        """Compare this run, the candidate, with a baseline run over the same questions.

        Each predictor is compared with the one of the same name, or ``predictor`` with
        ``baseline_predictor``. A positive difference means that this run is better. Printing the result
        shows what ``branchrank compare`` shows.

        Raises :class:`~branchrank.errors.RunError` when the questions are not the same, and
        :class:`~branchrank.errors.UsageError` for an unknown predictor or measure.
        """
        from branchrank.runs.run_comparison import compare_runs

        return compare_runs(
            self,
            baseline,
            predictor=predictor,
            baseline_predictor=baseline_predictor,
            measure=measure,
            delta=delta,
        )

    def gate(
        self,
        baseline: RunData,
        *,
        delta: float = DELTA,
        predictor: str = "",
        baseline_predictor: str = "",
        measure: str = "",
    ) -> RunGate:
        """Whether this run is not worse than the baseline by ``delta`` or more: pass, fail or undecided.

        Raises as :meth:`compare_with` does.
        """
        from branchrank.runs.run_comparison import gate_runs

        return gate_runs(
            self,
            baseline,
            delta=delta,
            predictor=predictor,
            baseline_predictor=baseline_predictor,
            measure=measure,
        )

    def where(self, *conditions: str) -> Self:
        """The run over the questions of a slice.

        >>> set(Run.load("reports/examples/sample").where("kind=howto").questions["kind"])
        {'howto'}

        Slices are kind, difficulty, overlap, content, size and depth. Several conditions on one slice admit
        any of their values. A cut is exploratory: it was not declared before the run.

        Raises :class:`~branchrank.errors.UsageError` for an unknown slice or value.
        """
        return cut_run(self, conditions)

    def explain(self, question_id: str, predictors: Sequence[str] = (), *, top: int = 3) -> Explanation:
        """The gold's rank after each stage, and the stage that lost it; printing the result shows it as text.

        Raises :class:`~branchrank.errors.UsageError` for an unknown question or predictor.
        """
        from branchrank.runs.explanation import explain

        return explain(self, question_id, predictors, top=top)

    def report(
        self,
        *,
        into: str | Path | None = None,
        with_text: bool = True,
        corpus: str | Path | None = None,
        notice: Callable[[str], None] = lambda _: None,
    ) -> list[Path]:
        """Write ``report.md``, ``report.html`` and the plots; returns their paths.

        They go into the run's directory unless ``into`` names another one; a cut needs ``into``.
        ``with_text=False`` leaves the documents' text out. ``corpus`` says where the corpus is now;
        ``notice`` is called with a line when that is not the corpus that was searched.

        Raises :class:`~branchrank.errors.UsageError` when another report would be overwritten.
        """
        from branchrank.corpus.named import locate_corpus
        from branchrank.report.writing import write_report

        if into is None and self.conditions:
            raise UsageError(
                "the report of a cut can't replace that of the whole run",
                remedy="name another directory with into=",
            )
        if into is not None and (Path(into) / RUN_JSON).exists():
            raise UsageError(
                f"{into} is a run, whose report would be replaced", remedy="name another directory"
            )
        return write_report(
            self,
            with_text=with_text,
            corpus=None if corpus is None else locate_corpus(corpus),
            into=None if into is None else Path(into),
            notice=notice,
        )

    def verify(self) -> Verification:
        """Compute every printed number in the run's directory again and name each one that differs."""
        from branchrank.report.verify import verify_run

        return verify_run(self.directory)

    def export_trec(self, output: str | Path, ids: Literal["gold", "document"] = "gold") -> list[Path]:
        """Write ``qrels.txt`` and a TREC run file for each predictor into ``output``; returns their paths.

        ``ids`` says what a document id is: the gold that a hit was credited with, or the hit's file.
        """
        from branchrank.runs.trec_files import export_trec

        return export_trec(self, Path(output), ids)
