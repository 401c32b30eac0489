"""The class ``Run``, which reads, compares and reports the results of finished runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Self

from branchrank.errors import UsageError
from branchrank.measures.verdicts import DELTA
from branchrank.runs.directory import RUN_JSON
from branchrank.runs.run import RunData, load_run
from branchrank.settings import arguments

if TYPE_CHECKING:
    from branchrank.bench import RunAccess
    from branchrank.measures.verdicts import Comparison
    from branchrank.report.verify import Verification
    from branchrank.runs.predictor_comparison import PredictorComparisons
    from branchrank.runs.run_comparison import RunComparison, RunGate


class Run(RunData):
    """A finished run of a benchmark.

    The result tables are available as attributes, such as ``summary``. Each table is a pandas DataFrame that
    is computed from the run's rows. Notebooks display a run as a table and a plot.

    >>> from branchrank import Run, library
    >>> run = Run.load(library.list_runs("reports")[0].directory)
    >>> run
    <Run ...-benchmark-42: 8 questions, local, hybrid>
    >>> comparison = run.compare("hybrid", "local")
    >>> comparison.wins, comparison.ties, comparison.losses
    (0, 7, 0)
    >>> [path.name for path in run.report()][:2]
    ['report.md', 'report.html']
    """

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Load a finished run from its directory.

        Raises :class:`~branchrank.errors.RunError` if the run is missing, unfinished, damaged or from another
        version of BranchRank.
        """
        return cls.of(load_run(arguments.path("directory", directory)))

    @classmethod
    def of(cls, data: RunData) -> Self:
        """Create an object of this class from a run's data."""
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

    def compare(
        self, candidate: str, baseline: str = "", measure: str = "", *, delta: float | None = None
    ) -> Comparison:
        """Compare two predictors of this run, question by question.

        A positive ``difference`` means that the candidate is better. ``baseline``, ``measure`` and ``delta``
        default to the values that the run declared. For a comparison that the run declared, the p-value and
        the interval are adjusted for the number of candidates, as in the run's report. For other comparisons,
        the p-value and the interval are not adjusted for multiple testing.

        Raises :class:`~branchrank.errors.UsageError` for an unknown predictor or measure.
        """
        from branchrank.runs.predictor_comparison import compare_within

        return compare_within(self, candidate, baseline, measure=measure, delta=delta)

    def compare_all(
        self, baseline: str | Sequence[str] = "", measure: str = "", *, delta: float | None = None
    ) -> PredictorComparisons:
        """Compare all predictors with one or more baselines, or with each other (``"all-pairs"``).

        All comparisons form one family. The p-values of a family are adjusted with Holm's method, and the
        intervals with the Bonferroni correction. The arguments default to the values that the run declared.
        The result contains the comparisons as records (``comparisons``) and as a DataFrame (``frame``).
        Printing the result shows one sentence per comparison.

        Raises :class:`~branchrank.errors.UsageError` for an unknown predictor or measure.

        >>> from branchrank import Run, library
        >>> run = Run.load(library.list_runs("reports")[0].directory)
        >>> [(each.candidate, each.baseline) for each in run.compare_all("all-pairs").comparisons]
        [('hybrid', 'local')]
        """
        from branchrank.runs.predictor_comparison import compare_all

        return compare_all(self, baseline, measure=measure, delta=delta)

    def compare_with(
        self,
        baseline: RunData,
        *,
        predictor: str = "",
        baseline_predictor: str = "",
        primary: str = "",
        measures: str | Sequence[str] = (),
        delta: float = DELTA,
    ) -> RunComparison:
        """Compare this run (the candidate) with a baseline run on the same questions.

        Each predictor is compared with the predictor of the same name in the baseline run. To compare only
        two predictors, give ``predictor`` and ``baseline_predictor``. A positive difference means that this
        run is better. ``primary`` is the measure that is tested (by default this run's primary measure).
        ``measures`` and this run's other declared measures are reported with confidence intervals, but are
        not tested. Printing the result shows the same text as ``branchrank compare``.

        Raises :class:`~branchrank.errors.RunError` if the two runs have different questions, and
        :class:`~branchrank.errors.UsageError` for an unknown predictor or measure.
        """
        from branchrank.runs.run_comparison import compare_runs

        return compare_runs(
            self,
            baseline,
            predictor=predictor,
            baseline_predictor=baseline_predictor,
            primary=primary,
            measures=arguments.texts("measures", measures, "nDCG@10"),
            delta=delta,
        )

    def gate(
        self,
        baseline: RunData,
        *,
        delta: float = DELTA,
        predictor: str = "",
        baseline_predictor: str = "",
        primary: str = "",
        measures: str | Sequence[str] = (),
    ) -> RunGate:
        """Decide whether this run is worse than the baseline by ``delta`` or more (pass, fail or undecided).

        The decision is based on the primary measure only. The differences in the other ``measures`` are
        printed, but not tested. Raises the same errors as :meth:`compare_with`.
        """
        from branchrank.runs.run_comparison import gate_runs

        return gate_runs(
            self,
            baseline,
            delta=delta,
            predictor=predictor,
            baseline_predictor=baseline_predictor,
            primary=primary,
            measures=arguments.texts("measures", measures, "nDCG@10"),
        )

    def report(
        self,
        *,
        into: str | Path | None = None,
        with_text: bool = True,
        corpus: str | Path | None = None,
        notice: Callable[[str], None] = lambda _: None,
    ) -> list[Path]:
        """Write ``report.md``, ``report.html`` and the plots, and return their paths.

        The files are written to the directory ``into`` (by default the run's directory). Writing a report to
        the run's directory also rewrites the CSV files with the columns of the current version. If the run
        was reduced to some of its questions (:meth:`where`), ``into`` is required. ``with_text=False`` omits
        the text of the documents. ``corpus`` is the folder that contains the corpus now. ``notice`` is called
        with a one-line message if the documents in ``corpus`` have changed since the run.

        Raises :class:`~branchrank.errors.UsageError` if the report of another run would be overwritten.
        """
        from branchrank.corpus.named import locate_corpus
        from branchrank.report.writing import write_report
        from branchrank.runs.directory import clear_temporary
        from branchrank.runs.tables import write_tables

        if into is None and self.conditions:
            raise UsageError(
                "a report on some of the questions can't replace the report on the whole run",
                remedy="choose another directory with into=",
            )
        if into is not None and (Path(into) / RUN_JSON).exists():
            raise UsageError(
                f"{into} is the directory of a run, and its report would be overwritten",
                remedy="choose another directory",
            )
        if into is None:
            if self.record.status == "finished":
                clear_temporary(self.directory.absolute())
            write_tables(self)
        return write_report(
            self,
            with_text=with_text,
            corpus=None if corpus is None else locate_corpus(corpus),
            into=None if into is None else Path(into),
            notice=notice,
        )

    def verify(
        self,
        *,
        rerun: int = 0,
        corpus: str | Path | None = None,
        seal: str | PathLike[str] | None = None,
        access: RunAccess | None = None,
    ) -> Verification:
        """Recompute every number in the run's reports, and report wrong numbers and contradictions.

        ``rerun`` is the number of randomly drawn questions that the systems answer again.
        :func:`branchrank.library.verify` explains all arguments.
        """
        from branchrank.bench import RunAccess
        from branchrank.corpus.named import locate_corpus
        from branchrank.report.verify import verify_run

        return verify_run(
            self.directory,
            rerun=rerun,
            corpus=None if corpus is None else locate_corpus(corpus),
            seal=None if seal is None else Path(seal),
            access=access or RunAccess(),
        )
