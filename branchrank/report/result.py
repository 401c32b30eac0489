"""The first sections of a report: what was run, the rates, the verdicts, what passages cost, the frontier."""

from __future__ import annotations

from branchrank.measures.fragility import fragility
from branchrank.measures.verdicts import Comparison
from branchrank.report import plots
from branchrank.report.blocks import Block, Cell, Paragraph, Plot, Points, Section, Strong, Table
from branchrank.runs.comparisons import Judgement, pairs_of
from branchrank.runs.directory import IndexFacts
from branchrank.runs.estimates import choice, difference, flip_rate, standings
from branchrank.runs.run import RunData
from branchrank.runs.scores import NamedMeasure
from branchrank.runs.words import (
    NOTHING,
    confidence,
    effect,
    interval,
    milliseconds,
    number,
    opening,
    p_value,
    percent,
    plural,
    points,
    points_between,
    record,
    sentence,
)
from branchrank.systems.query import read_filters


def named(predictor: str, judgement: Judgement) -> Cell:
    """A predictor's name, strong for the winner alone."""
    return Strong(predictor) if predictor == judgement.winner else predictor


def asked(run: RunData) -> str:
    """How many questions were asked, and how many of them have no answer."""
    without = len(run.asked) - len(run.scores.answerable)
    return plural(len(run.asked), "question") + (f", {without} of them unanswerable" if without else "")


def facts(run: RunData) -> Table:
    """What was run, on what, with what."""
    record, clusters = run.record, len(set(run.clusters.values()))
    rows = [
        ("questions", f"{asked(run)}, from {plural(clusters, 'source')}; {record.questions_file}"),
        ("questions' digest", record.questions_digest[:16]),
        ("split", record.split or "none given; scores on questions used for tuning are not evidence"),
        (
            "corpus",
            f"{record.corpus or 'none'} (digest {record.corpus_digest[:16]})" if record.corpus else "none",
        ),
    ]
    for index in record.indexes:
        name = "index" if len(record.indexes) == 1 else f"index {index.name}"
        rows.append(
            (
                name,
                f"{index.embedder}, {index.dimension} dimensions; {index.vector_store}{_recall(index)}; "
                f"{plural(index.chunks, 'chunk')}, {plural(index.nodes, 'node')}; "
                f"digest {index.digest[:16]}",
            )
        )
        rows.append(
            (f"{name}, build", f"{index.build_seconds:.1f} s, {index.bytes / 1e6:.1f} MB on the disk")
        )
        if index.distance.words and _calibrated(run, index.name):
            rows.append((f"{name}, threshold", index.distance.words))
    if record.filters:
        rows.append(("filters", f"{' and '.join(record.filters)}: {_filtered(run)}"))
    seal = "none" if record.seal is None else f"{record.seal.file} (digest {record.seal.digest[:16]})"
    rows += [
        ("seal", seal),
        ("hits kept", str(record.top_k)),
        ("seed", str(record.seed)),
        ("made", record.created),
    ]
    return Table(caption="What was run", headings=("", "value"), rows=tuple(rows), labels=2)


def _recall(index: IndexFacts) -> str:
    """What an approximate vector store found of the true nearest chunks."""
    return "" if index.recall is None else f" (recall@{index.recall_depth} {index.recall:.4f})"


def _filtered(run: RunData) -> str:
    """How many questions can be answered at all from the documents that the filters admit."""
    filters = read_filters(run.record.filters)
    answerable = [question for question in run.asked if question.gold]
    inside = sum(
        any(all(each.admits(gold.source_file) for each in filters) for gold in question.gold)
        for question in answerable
    )
    return f"{inside} of {plural(len(answerable), 'answerable question')} have an answer in these documents"


def _calibrated(run: RunData, index: str) -> bool:
    """Whether a predictor on this index drops chunks by the index's own threshold."""
    return any(
        branch.threshold == "calibrated"
        for each in run.record.predictors
        if each.index == index and each.system is not None
        for branch in each.system.branches
    )


def result(run: RunData) -> Section:
    """Rates with intervals and verdicts in words."""
    judgement = run.judgement
    hits = _hits(run)
    answered = f"the {plural(len(run.scores.answerable), 'question')} with an answer"
    means = [measure for measure in run.shown if measure not in hits]

    def table(caption: str, columns: list[NamedMeasure]) -> Table:
        return Table(
            caption=caption,
            headings=("predictor", "LLM", *(measure.name.replace("_", " ") for measure in columns)),
            rows=tuple(
                (
                    named(row.predictor, judgement),
                    row.llm,
                    *(interval(row.estimates[measure.name]) for measure in columns),
                )
                for row in run.summary_rows
            ),
            labels=2,
        )

    return Section(
        title="Result",
        blocks=(
            *_verdicts(judgement),
            table(f"Hit rates over {answered}, with 95% intervals", hits),
            table(f"Means over {answered}, with 95% intervals", means),
            Paragraph(
                text="Strict: the hit covers the gold. Relaxed: it is on the gold's page. A failed "
                "query counts as a miss. Intervals allow for questions whose gold is on the same page. "
                + _bold_words(judgement)
            ),
            rates_plot(run),
            *_flips(run),
        ),
    )


def _hits(run: RunData) -> list[NamedMeasure]:
    return [measure for measure in run.shown if measure.measure.definition.name == "Success"]


def rates_plot(run: RunData) -> Plot:
    """Every predictor's hit rates with their intervals."""
    return plots.rates(
        [
            (row.predictor, measure.name, row.estimates[measure.name])
            for row in run.summary_rows
            for measure in _hits(run)
        ]
    )


def _bold_words(judgement: Judgement) -> str:
    if judgement.winner is None:
        return "No predictor is bold: no lead on the primary measure passed its adjusted test."
    if judgement.all_pairs:
        return "One predictor is bold: its lead over every other one passed its adjusted test."
    if judgement.winner in judgement.baselines:
        if len(judgement.baselines) > 1:
            return "One baseline is bold: its lead over every other predictor passed its adjusted test."
        return "The baseline is bold: its lead over every candidate passed its adjusted test."
    which = "the baseline" if len(judgement.baselines) == 1 else "every baseline"
    return (
        f"The best candidate is bold: its lead over {which} passed its adjusted test. Candidates were "
        "not tested against each other."
    )


def _verdicts(judgement: Judgement) -> list[Block]:
    if not judgement.comparisons:
        return [Paragraph(text="There is nothing to compare: one predictor, or no answerable question.")]
    compared = Points(items=tuple((Strong(opening(c)), sentence(c)) for c in judgement.comparisons))
    return [compared]


def _flips(run: RunData) -> list[Block]:
    rows = tuple(
        (each.name, str(each.repeats), percent(flip_rate(run, each.name, run.primary)))
        for each in run.record.predictors
        if each.repeats > 1 and each.name in run.predictors
    )
    if not rows:
        return []
    return [
        Table(
            caption=f"Repeats: share of questions whose repeats disagree on {run.primary.name}",
            headings=("predictor", "repeats", "flip rate"),
            rows=rows,
        )
    ]


def statistics(run: RunData) -> Section:
    """The figures behind the verdicts, and the other measures without verdicts."""
    judgement = run.judgement
    if not judgement.comparisons:
        return Section(title="Statistics", blocks=(Paragraph(text="Nothing was compared."),))
    first = judgement.comparisons[0]
    one = len(judgement.baselines) == 1
    tests = Table(
        caption=f"{judgement.measure} against {judgement.baseline if one else 'its baseline'}",
        headings=(
            "candidate",
            *(() if one else ("baseline",)),
            "verdict",
            "test",
            f"difference ({confidence(first)})",
            "effect size",
            "wins/ties/losses",
            "p",
            "adjusted p",
            "p-floor",
            "McNemar p",
            "detectable",
            "questions needed",
            "labels that carry it",
        ),
        rows=tuple(_test_row(each, run, () if one else (each.baseline,)) for each in judgement.comparisons),
        labels=3 if one else 4,
    )
    return Section(
        title="Statistics",
        blocks=(
            Paragraph(
                text=f"Primary measure: {judgement.measure}. {_baselines(judgement)}. "
                f"{_declared(run)} {plural(first.n, 'question')} in "
                f"{plural(first.clusters, 'cluster')} of one gold source each. Family of "
                f"{plural(first.family, 'comparison')}: tests corrected by Holm, intervals by Bonferroni; "
                f"alpha {first.alpha:g}, delta {100 * first.delta:g} points."
            ),
            tests,
            Paragraph(
                text="p-floor: the smallest p that so many differing clusters can give. Detectable: the "
                "smallest true difference, in points, that the test finds with 80% power, given how often "
                "the two disagree and how alike the questions of one page are. Questions needed: to "
                "confirm the observed difference with 80% power. Labels that carry it: how many gold "
                "labels would have to change before the test no longer rejects, of those that favour the "
                "leader. Effect size: the odds ratio is wins over losses, 1 for no difference; d_z is the "
                "mean difference over the standard deviation of the differences."
            ),
            _exploratory(run),
        ),
    )


def _declared(run: RunData) -> str:
    """What is known of when the measure and the baseline were chosen."""
    seal = run.record.seal
    if seal is None:
        return "No seal was given (--seal), so nothing shows that both were chosen before the run."
    return (
        f"Plan, questions, measure, baseline and alpha match the seal {seal.file} ({seal.digest[:16]}); only "
        "a copy of it kept elsewhere proves that it was made before the run."
    )


def _baselines(judgement: Judgement) -> str:
    if judgement.all_pairs:
        return "Every pair of predictors is compared"
    names = judgement.baselines
    return f"Baseline: {names[0]}" if len(names) == 1 else f"Baselines: {', '.join(names)}"


def _test_row(each: Comparison, run: RunData, baseline: tuple[str, ...]) -> tuple[Cell, ...]:
    return (
        each.candidate,
        *baseline,
        each.verdict,
        each.test,
        f"{points(each.difference)} ({points_between(each.ci_low, each.ci_high)})",
        effect(each),
        record(each),
        p_value(each.p),
        p_value(each.p_adjusted),
        p_value(each.p_floor),
        NOTHING if each.p_mcnemar is None else p_value(each.p_mcnemar),
        NOTHING if each.mde is None else f"{100 * each.mde:.1f}",
        NOTHING if each.questions_needed is None else str(each.questions_needed),
        _carrying(each, run),
    )


def _carrying(each: Comparison, run: RunData) -> str:
    if each.verdict not in ("better", "worse"):
        return NOTHING
    found = fragility(
        (each.baseline, run.scores.per_question(each.baseline, run.primary)),
        (each.candidate, run.scores.per_question(each.candidate, run.primary)),
        run.clusters,
        # The level at which Holm's correction tested this one.
        alpha=each.alpha * each.p / each.p_adjusted if each.p_adjusted else each.alpha / each.family,
        seed=run.record.seed,
    )
    return f"{len(found.unsettle)} of {found.candidates}"


def _exploratory(run: RunData) -> Table:
    judgement = run.judgement
    pairs = pairs_of(judgement.baselines, run.predictors)
    one = len(judgement.baselines) == 1
    whom = judgement.baseline if one else "the baseline"
    measures = [each for each in run.standard if not each.same(run.primary)]
    values = {
        (name, measure.name): run.scores.per_question(name, measure)
        for name in run.predictors
        for measure in measures
    }

    def cell(baseline: str, candidate: str, measure: str) -> str:
        found = difference(run, values[baseline, measure], values[candidate, measure])
        return f"{points(found.value)} ({points_between(found.low, found.high)})"

    return Table(
        caption=f"Other measures, exploratory: difference from {whom} in points (95% interval)",
        headings=(
            *(("candidate",) if one else ("candidate", "baseline")),
            *(measure.name.replace("_", " ") for measure in measures),
        ),
        rows=tuple(
            (
                *((candidate,) if one else (candidate, baseline)),
                *(cell(baseline, candidate, measure.name) for measure in measures),
            )
            for baseline, candidate in pairs
        ),
        labels=1 if one else 2,
    )


def passages(run: RunData) -> Section:
    """What a reader pays for the strict rates."""
    judgement = run.judgement
    strict = [each.name for each in run.standard if "strict_hit" in each.name]
    return Section(
        title="Passages",
        blocks=(
            Table(
                caption="Strict rates and what the passages cost, over the first five hits",
                headings=(
                    "predictor",
                    *(name.replace("_", " ") for name in strict),
                    "lines per hit",
                    "characters per hit",
                    "tokens per hit",
                    "repeated pages",
                    "span precision",
                    "gold coverage",
                ),
                rows=tuple(
                    (
                        named(row.predictor, judgement),
                        *(percent(row.rates[name]) for name in strict),
                        number(row.lines_per_hit),
                        number(row.characters_per_hit, 0),
                        number(row.tokens_per_hit, 0),
                        percent(row.repeated_pages),
                        percent(row.span_precision),
                        percent(row.gold_coverage),
                    )
                    for row in run.summary_rows
                ),
            ),
            Paragraph(
                text="Span precision: the share of the returned lines that are gold. Gold coverage: the "
                "share of the gold lines that was returned. Returning whole files inflates strict hits; "
                "these columns show the cost. Repeated pages: the share of these hits that come from a page "
                "already listed above them."
            ),
        ),
    )


def trade_off(run: RunData) -> Section:
    """Quality, latency and LLM cost together."""
    found = standings(run)
    if not found or not run.scores.answerable:
        text = "Latency was not measured, so there is no trade-off to show."
        return Section(title="Quality, latency and cost", blocks=(Paragraph(text=text),))
    best, chosen = choice(run, found)
    efficient = {each.name for each in best}
    unit = _cost_unit(run)
    measure = run.primary.name
    others = ", ".join(chosen.not_inferior)
    return Section(
        title="Quality, latency and cost",
        blocks=(
            Table(
                caption=f"Every predictor, by {measure}",
                headings=("predictor", measure.replace("_", " "), "p95 ms", unit, "on the frontier"),
                rows=tuple(
                    (
                        each.name,
                        percent(each.quality),
                        milliseconds(each.p95_ms),
                        number(each.cost, 6 if run.record.prices else 0),
                        "yes" if each.name in efficient else "no",
                    )
                    for each in sorted(found, key=lambda each: (-each.quality, each.name))
                ),
            ),
            Paragraph(
                text="On the frontier: no other predictor is at least as good in quality, p95 and cost "
                f"together. Not inferior to {chosen.best}, the best observed, by {100 * chosen.delta:g} "
                f"points or more: {others}. The cheapest of these, then the fastest: "
                f"{chosen.cheapest.name}."
            ),
            plots.frontier(found, efficient, measure),
        ),
    )


def _cost_unit(run: RunData) -> str:
    prices = run.record.prices
    return f"{prices.currency} per query" if prices else "LLM tokens per query"
