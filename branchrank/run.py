"""The class ``Run``, which reads, compares and reports the results of finished runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from branchrank.core.errors import UsageError
from branchrank.runs.comparisons import baselines_of, pairs_of
from branchrank.runs.directory import RUN_JSON
from branchrank.runs.run_data import RunData
from branchrank.runs.timings import Timing
from branchrank.runs.warnings import failures
from branchrank.scoring.comparison import DEFAULTS, CompareOptions, Comparison

if TYPE_CHECKING:
    import pandas as pd

    from branchrank.reports.verify import Verification
    from branchrank.runs.bench.resume import RunAccess
    from branchrank.runs.explanation import Explanation
    from branchrank.runs.run_comparison import PredictorComparisons, RunComparison, RunGate


class Run(RunData):
    """A finished run of a benchmark, with everything that the run stored.

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

    def __repr__(self) -> str:
        cut = f", {' and '.join(self.conditions)}" if self.conditions else ""
        return f"<Run {self.directory.name}: {len(self.asked)} questions{cut}, {', '.join(self.predictors)}>"

    def _repr_html_(self) -> str:
        from branchrank.reports.writing import run_html

        return run_html(self)

    @property
    def failed(self) -> tuple[str, ...]:
        """A message for each predictor whose queries or LLM calls all failed, with the most common reason."""
        found = failures(self.rows, self.record.predictors)
        return tuple(str(caution) for caution in found if caution.kind == "failed")

    @cached_property
    def summary(self) -> pd.DataFrame:
        """A table with the columns of ``summary.csv``, and one row per predictor."""
        from branchrank.runs.tables import summary_sheet

        return summary_sheet(self).frame

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """A table with the columns of ``comparisons.csv``, and one row per declared comparison."""
        from branchrank.runs.tables import comparisons_sheet

        return comparisons_sheet(self.judgment.comparisons).frame

    @cached_property
    def questions(self) -> pd.DataFrame:
        """A table with the columns of ``questions.csv``, and one row per question, predictor and repeat."""
        from branchrank.runs.tables import questions_sheet

        return questions_sheet(self).frame

    @cached_property
    def calls(self) -> pd.DataFrame:
        """A table with the columns of ``llm_calls.csv``, and one row per LLM call (including its retries)."""
        from branchrank.runs.tables import calls_sheet

        return calls_sheet(self.ledger).frame

    @cached_property
    def timings(self) -> pd.DataFrame:
        """A table with the columns of ``timings.csv``, and one row per timed query and stage."""
        import pandas as pd

        rows = map(msgspec.structs.astuple, self.timed)
        return pd.DataFrame(rows, columns=list(Timing.__struct_fields__))

    def publish(self) -> None:
        """Write the report at the end of a benchmark."""
        from branchrank.reports.writing import write_report

        write_report(self)

    def print(self, *, verbose: bool = False) -> None:
        """Print the verdict, the table and the next steps, as ``branchrank show`` does.

        With ``verbose``, first print each comparison, and the rates by gold level and for half and full hits.
        """
        from branchrank.reports.terminal_report import print_details, print_summary

        if verbose:
            print_details(self)
        print_summary(self)

    def explain(self, question_id: str, predictors: Sequence[str] = (), *, top: int = 3) -> Explanation:
        """Return the gold's rank after each stage for one question, and the stage at which the gold was lost.

        Raises :class:`~branchrank.core.errors.UsageError` for an unknown question or predictor.
        """
        from branchrank.runs.explanation import explain

        return explain(self, question_id, predictors, top=top)

    def export_trec(self, output: str | Path, ids: Literal["gold", "document"] = "gold") -> list[Path]:
        """Write ``qrels.txt`` and a TREC run file for each predictor into ``output``, and return the paths.

        With ``ids="gold"``, the document id of a hit is the id of the gold that it matches. With
        ``ids="document"``, the document id of a hit is the path of its file.
        """
        from branchrank.runs.exchange import export_trec

        return export_trec(self, Path(output), ids)

    def compare(
        self, candidate: str, baseline: str = "", measure: str = "", *, delta: float | None = None
    ) -> Comparison:
        """Compare two predictors of this run, question by question.

        A positive ``difference`` means that the candidate is better. ``baseline``, ``measure`` and ``delta``
        default to the values that the run declared. For a comparison that the run declared, the p-value and
        the interval are adjusted for the number of candidates, as in the run's report. For other comparisons,
        the p-value and the interval are not adjusted for multiple testing.

        Raises :class:`~branchrank.core.errors.UsageError` for an unknown predictor or measure.
        """
        baseline = baseline or self.judgment.baseline
        for name in (candidate, baseline):
            self.check_predictor(name)
        if candidate == baseline:
            raise UsageError(f"{candidate!r} can't be compared with itself", remedy="choose another baseline")
        chosen = self.measure(measure)
        if chosen.same(self.primary) and delta in (None, self.settings.delta):
            for declared in self.judgment.comparisons:
                if (declared.candidate, declared.baseline) == (candidate, baseline):
                    return declared
        return self.compare_pairs(chosen, [(baseline, candidate)], delta)[0]

    def compare_all(
        self, baseline: str | Sequence[str] = "", measure: str = "", *, delta: float | None = None
    ) -> PredictorComparisons:
        """Compare all predictors with one or more baselines, or with each other (``"all-pairs"``).

        All comparisons form one family. The p-values of a family are adjusted with Holm's method, and the
        intervals with the Bonferroni correction. The arguments default to the values that the run declared.
        The result contains the comparisons as records (``comparisons``) and as a DataFrame (``frame``).
        Printing the result shows one sentence per comparison.

        Raises :class:`~branchrank.core.errors.UsageError` for an unknown predictor or measure.

        >>> from branchrank import Run, library
        >>> run = Run.load(library.list_runs("reports")[0].directory)
        >>> [(each.candidate, each.baseline) for each in run.compare_all("all-pairs").comparisons]
        [('hybrid', 'local')]
        """
        from branchrank.runs.run_comparison import PredictorComparisons

        pairs = pairs_of(baselines_of(baseline or self.settings.baseline, self.predictors), self.predictors)
        return PredictorComparisons(
            comparisons=self.compare_pairs(self.measure(measure), pairs, delta),
            failed=tuple(filter(self.scores.failed, self.predictors)),
        )

    def compare_with(self, baseline: Run, options: CompareOptions = DEFAULTS) -> RunComparison:
        """Compare this run (the candidate) with a baseline run on the same questions.

        Each predictor is compared with the predictor of the same name in the baseline run. To compare only
        two predictors, give ``options.predictor``, and ``options.baseline`` for one with another name. A
        positive difference means that this run is better. ``options.primary`` is the measure that is tested,
        by default this run's primary measure. ``options.measures`` and this run's other declared measures are
        reported with confidence intervals, but are not tested. Printing the result shows the same text as
        ``branchrank compare``.

        Raises :class:`~branchrank.core.errors.RunError` if the two runs have different questions, and
        :class:`~branchrank.core.errors.UsageError` for an unknown predictor or measure.
        """
        from branchrank.runs.run_comparison import compare_runs

        return compare_runs(self, baseline, options)

    def gate(self, baseline: Run, options: CompareOptions = DEFAULTS) -> RunGate:
        """Decide whether this run is worse than the baseline by delta or more (pass, fail or undecided).

        The decision is based on the primary measure only. The differences in the other measures are printed,
        but not tested. The arguments and the errors are those of :meth:`compare_with`.
        """
        from branchrank.runs.run_comparison import gate_runs

        compared = self.compare_with(baseline, replace(options, delta=options.delta or 1e-9))
        return gate_runs(compared, options.delta)

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

        Raises :class:`~branchrank.core.errors.UsageError` if the report of another run would be overwritten.
        """
        from branchrank.documents.named import locate_corpus
        from branchrank.reports.writing import write_report
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

    def verify(self, rerun: int = 0, access: RunAccess | None = None) -> Verification:
        """Recompute every number in the run's reports, and report wrong numbers and contradictions.

        ``rerun`` is the number of randomly drawn questions that the systems answer again.
        :func:`branchrank.library.verify` has more arguments.
        """
        from branchrank.reports.verify import verify

        return verify(self.directory, rerun=rerun, access=access)
