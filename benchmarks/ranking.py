"""Benchmark several systems, from `local` to late interaction, on the question sets in `ranking_sets.toml`.

    python benchmarks/ranking.py digests WORK
    python benchmarks/ranking.py run WORK [SET ...]
    python benchmarks/ranking.py tables WORK [--plot FILE]

1. `WORK/CORPUS` is a workspace (`branchrank index`), and `WORK/questions/CORPUS.jsonl` contains the questions
   about its corpus (`branchrank questions mine`).
2. A question set is a seeded random sample of the questions whose gold is a section or a page. `digests`
   prints the digest of each question set. `run` rejects a question set whose digest differs from the digest
   in `ranking_sets.toml`.
3. `run` runs `examples/ranking.toml` on each question set, and writes the results to `WORK/reports/SET`.
4. `tables` prints each system's hit rates on each question set. `tables` also pools the mined questions of
   several corpora, and prints comparisons of the systems on each pool. Each step compares a system with a
   baseline. The p-values (Holm) and intervals (Bonferroni) are adjusted for all steps together. The questions
   about a page form a cluster.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from branchrank import Run
from branchrank.core.records import Question
from branchrank.library import BenchmarkOptions, plan_from_experiment, run_benchmark
from branchrank.questions.question_files import (
    load_questions,
    questions_digest,
    sample_questions,
    write_questions,
)
from branchrank.runs.scores import estimate
from branchrank.scoring.comparison import CompareOptions, Comparison
from branchrank.scoring.measures import named_measure
from branchrank.scoring.significance import difference_interval
from branchrank.scoring.verdicts import compare_pairs

ROOT = Path(__file__).parents[1]
EXPERIMENT = ROOT / "examples" / "ranking.toml"
#: The candidate and the baseline in each comparison.
STEPS = (
    ("late-interaction", "local"),
    ("score", "local"),
    ("maxsim", "score"),
    ("late-interaction", "maxsim"),
    ("late-interaction", "local-grown"),
    ("local-grown", "local"),
    ("hybrid", "local"),
)
#: Maps the name of a pool to the comparisons that were declared before the first run.
DECLARED = {"symfony + django, remaining sections": STEPS[:1]}
#: A lower bound is printed for the difference in strict hit@5 between these two systems.
MARGIN = ("hybrid", "local")
STRICT = ("strict_hit@1", "strict_hit@5")
MEASURES = (*STRICT, "relaxed_hit@1", "relaxed_hit@5", "strict_MRR@5")


class QuestionSet(msgspec.Struct, frozen=True, kw_only=True):
    """A set of questions about a corpus.

    ``sample`` is the number of questions that are drawn (0 means all), and ``seed`` is the random seed.
    ``pool`` contains the names of the pools that include this question set. ``rest_of`` is the name of
    another question set, whose questions are excluded.
    """

    name: str
    corpus: str
    gold: Literal["section", "page", "all"] = "all"
    questions: str = ""
    sample: int = 0
    seed: int = 42
    rest_of: str = ""
    digest: str = ""
    pool: tuple[str, ...] = ()


def read_sets(names: Sequence[str] = ()) -> list[QuestionSet]:
    """Return the question sets with these names, or all question sets if ``names`` is empty."""
    content = Path(__file__).with_name("ranking_sets.toml").read_bytes()
    sets = msgspec.toml.decode(content, type=dict[str, list[QuestionSet]])["sets"]
    return [each for each in sets if not names or each.name in names]


def drawn(work: Path, each: QuestionSet) -> list[Question]:
    """Return the questions in a set."""
    path = work / "questions" / f"{each.questions or each.corpus}.jsonl"
    loaded = [
        question
        for question in load_questions(path)
        if each.gold == "all" or all((item.span is None) == (each.gold == "page") for item in question.gold)
    ]
    if each.rest_of:
        (first,) = read_sets([each.rest_of])
        asked = {question.id for question in drawn(work, first)}
        loaded = [question for question in loaded if question.id not in asked]
    return sample_questions(loaded, each.sample, each.seed)


def run_set(work: Path, each: QuestionSet) -> None:
    """Check the digest of a question set, and run the experiment ``examples/ranking.toml`` on it."""
    questions = drawn(work, each)
    if questions_digest(questions) != each.digest:
        raise SystemExit(f"the questions of {each.name} differ from the questions in ranking_sets.toml")
    folder = work / "reports" / each.name
    folder.mkdir(parents=True, exist_ok=True)
    asked = folder / "questions.jsonl"
    write_questions(asked, questions)
    # Two top-level keys are inserted before the file's tables.
    experiment = folder / "ranking.toml"
    keys = f'data_dir = "{work / each.corpus}"\nquestions = "{asked}"\n'
    experiment.write_text(keys + EXPERIMENT.read_text(encoding="utf-8"), encoding="utf-8")
    run_benchmark(plan_from_experiment(experiment, reports=folder), BenchmarkOptions(notify=print))


def read_runs(work: Path) -> dict[str, tuple[QuestionSet, Run]]:
    """Return the newest run on each question set. Question sets without a run are left out."""
    found = {}
    for each in read_sets():
        runs = sorted((work / "reports" / each.name).glob("*/run.json"))
        if runs:
            run = Run.load(runs[-1].parent)
            if run.record.questions_digest != each.digest:
                raise SystemExit(f"the questions in {runs[-1]} differ from {each.name} in ranking_sets.toml")
            found[each.name] = (each, run)
    return found


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with this header and these rows."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def set_rows(run: Run) -> list[list[str]]:
    """Return a table row per system, with hit rates in percent and lines per hit."""
    rows = []
    for row in run.summary.to_dict("records"):
        at1, at5, relaxed1, relaxed5, mrr = (100 * row[name] for name in MEASURES)
        rows.append(
            [
                row["predictor"],
                f"{at1:.1f} / {at5:.1f}",
                f"{relaxed1:.1f} / {relaxed5:.1f}",
                f"{mrr:.1f}",
                f"{row['lines_per_hit']:.1f}",
            ]
        )
    return rows


def pooled(
    runs: Iterable[tuple[QuestionSet, Run]], measure: str
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Return each system's score on every question of the runs, and each question's cluster.

    The ids of questions and clusters are prefixed with the corpus name.
    """
    scores: dict[str, dict[str, float]] = {}
    clusters: dict[str, str] = {}
    for each, run in runs:
        clusters |= {f"{each.corpus}/{key}": f"{each.corpus}/{page}" for key, page in run.clusters.items()}
        for name in run.predictors:
            values = run.scores.per_question(name, named_measure(measure))
            scores.setdefault(name, {}).update(
                {f"{each.corpus}/{key}": value for key, value in values.items()}
            )
    return scores, clusters


def compare(
    scores: Mapping[str, Mapping[str, float]],
    clusters: Mapping[str, str],
    measure: str,
    steps: Sequence[tuple[str, str]] = STEPS,
) -> str:
    """Return a Markdown table with one comparison per step, adjusted for all steps together."""
    pairs = [(old, new) for new, old in steps]
    found = compare_pairs(pairs, scores, clusters, measure=measure, options=CompareOptions(seed=0))
    return table(
        ("step", "from", "to", "difference", "wins / losses", "p", "Holm's p"), map(comparison_row, found)
    )


def comparison_row(each: Comparison) -> list[str]:
    """Return the table row for one comparison, with means and differences in percent."""
    return [
        f"{each.candidate} vs {each.baseline}",
        f"{100 * each.mean_a:.1f}",
        f"{100 * each.mean_b:.1f}",
        f"{100 * each.difference:+.1f} {interval(each)}",
        f"{each.wins} / {each.losses}",
        f"{each.p:.2g}",
        f"{each.p_adjusted:.2g}",
    ]


def interval(each: Comparison) -> str:
    """Format a step's interval. All intervals in a table have a joint confidence level of 95%."""
    if each.ci_low is None or each.ci_high is None:
        return "(few pages)"
    return f"[{100 * each.ci_low:+.1f}, {100 * each.ci_high:+.1f}]"


def lower_bound(scores: Mapping[str, Mapping[str, float]], clusters: Mapping[str, str]) -> str:
    """Return the one-sided 95% lower bound for the difference ``hybrid`` - ``local``, in percent."""
    ids = sorted(clusters)
    candidate, baseline = MARGIN
    differences = [scores[candidate][key] - scores[baseline][key] for key in ids]
    found = difference_interval(differences, [clusters[key] for key in ids], level=0.9)
    return "none, too few pages" if found is None else f"{100 * found.low:+.1f}"


def plot(runs: Sequence[tuple[QuestionSet, Run]]) -> str:
    """Return an SVG plot of strict hit@1 with intervals, with a panel per set of at least 100 questions."""
    from branchrank.reports.drawing import draw, standalone
    from branchrank.reports.plots import rates

    measure = named_measure(STRICT[0])
    shown = [
        (name, each.name, estimate(run.scores.per_question(name, measure), run.clusters))
        for each, run in runs
        if len(run.asked) >= 100
        for name in run.predictors
    ]
    return standalone(draw(rates(shown).spec))


def print_tables(work: Path, svg: Path | None) -> None:
    """Print a table for each question set, and the comparisons on the pooled questions."""
    runs = read_runs(work)
    for each, run in runs.values():
        print(f"## {each.name}: {len(run.asked)} questions, {each.digest[:16]}\n")
        print(table(("system", "strict @1 / @5", "relaxed @1 / @5", "MRR@5", "lines per hit"), set_rows(run)))
    groups: dict[str, list[tuple[QuestionSet, Run]]] = {}
    for each, run in runs.values():
        for name in each.pool:
            groups.setdefault(name, []).append((each, run))
    for name, members in groups.items():
        for measure in STRICT:
            scores, clusters = pooled(members, measure)
            print(f"## {name}, {measure}: {len(clusters)} questions of {len(set(clusters.values()))} pages\n")
            if measure == STRICT[0] and name in DECLARED:
                print(f"Declared:\n\n{compare(scores, clusters, measure, DECLARED[name])}")
            print(compare(scores, clusters, measure))
        bound = lower_bound(scores, clusters)
        print(f"{' - '.join(MARGIN)}, strict hit@5: one-sided 95% lower bound {bound}\n")
    if svg is not None:
        svg.write_text(plot(list(runs.values())), encoding="utf-8")


def main() -> None:
    """Run the command ``digests``, ``run`` or ``tables``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("digests", "run", "tables"))
    parser.add_argument("work", type=Path)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    work = options.work.resolve()
    if options.command == "tables":
        print_tables(work, options.plot)
        return
    for each in read_sets(options.sets):
        if options.command == "run":
            run_set(work, each)
        else:
            questions = drawn(work, each)
            print(f"{each.name}: {len(questions)} questions, digest {questions_digest(questions)}")


if __name__ == "__main__":
    main()
