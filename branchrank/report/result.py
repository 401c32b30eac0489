"""The first sections of a report: what was run, the rates, the verdicts, what passages cost, the frontier."""

from __future__ import annotations

from branchrank.measures.fragility import fragility
from branchrank.measures.names import NamedMeasure
from branchrank.measures.verdicts import Comparison
from branchrank.report import plots
from branchrank.report.blocks import Block, Cell, Paragraph, Points, Section, Strong, Table
from branchrank.report.rates import at_depths, hits, means, mixed_words, named, over, rates_plot, rates_table
from branchrank.runs.comparisons import Judgement
from branchrank.runs.directory import IndexFacts
from branchrank.runs.estimates import choice, difference, flip_rate, standings
from branchrank.runs.run import RunData
from branchrank.runs.words import (
    NOTHING,
    confidence,
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
    """Rates with intervals and verdicts in words; where gold is of two levels, the rates come first."""
    apart, asked_of = mixed_words(run), f"over {over(run)}, with 95% intervals"
    tables: list[Block] = [rates_table(run, f"Hit rates {asked_of}", hits(run))]
    if at_depths(run):
        caption = f"Strict hits at any overlap, half and all of the gold lines, {asked_of}"
        tables.append(rates_table(run, caption, at_depths(run)))
    if means(run):
        tables.append(rates_table(run, f"Means {asked_of}", means(run)))
    verdicts = _verdicts(run.judgement)
    return Section(
        title="Result",
        blocks=(
            *((*apart, *tables, *verdicts) if apart else (*verdicts, *tables)),
            Paragraph(
                text="Strict: the hit covers the gold, in at least one line; half and full: it holds at "
                "least half of the gold's lines, or all. Relaxed: it is on the gold's page. A failed "
                "query counts as a miss. Intervals allow for questions whose gold is on the same page. "
                + _bold_words(run.judgement)
            ),
            rates_plot(run),
            *_flips(run),
        ),
    )


def _bold_words(judgement: Judgement) -> str:
    if judgement.winner is None:
        return "No predictor is bold: no lead on the primary measure passed its adjusted test."
    if judgement.winner == judgement.baseline:
        return "The baseline is bold: its lead over every candidate passed its adjusted test."
    return (
        "The best candidate is bold: its lead over the baseline passed its adjusted test. Candidates were "
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
            caption=f"Repeats: share of {over(run)} whose repeats disagree on {run.primary.name}",
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
    tests = Table(
        caption=f"{judgement.measure} against {judgement.baseline}, over {over(run)}",
        headings=(
            "candidate",
            "verdict",
            "test",
            f"difference ({confidence(first)})",
            "wins/ties/losses",
            "p",
            "adjusted p",
            "p-floor",
            "McNemar p",
            "detectable",
            "questions needed",
            "labels that carry it",
        ),
        rows=tuple(_test_row(each, run) for each in judgement.comparisons),
        labels=3,
    )
    return Section(
        title="Statistics",
        blocks=(
            Paragraph(
                text=f"Primary measure: {judgement.measure}. Baseline: {judgement.baseline}. "
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
                "leader."
            ),
            *_by_gold(run),
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


def _test_row(each: Comparison, run: RunData) -> tuple[Cell, ...]:
    return (
        each.candidate,
        each.verdict,
        each.test,
        f"{points(each.difference)} ({points_between(each.ci_low, each.ci_high)})",
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


def _by_gold(run: RunData) -> list[Table]:
    """The primary measure's differences for each level of gold, where there are both."""
    if len(run.by_gold) == 1:
        return []
    baseline, measure = run.judgement.baseline, run.primary
    parts = list(run.by_gold.items())
    return [
        Table(
            caption=f"{measure.name} by level of gold, exploratory: difference from {baseline} in points "
            "(95% interval)",
            headings=(
                "candidate",
                *(f"{level} ({plural(len(part.scores.answerable), 'question')})" for level, part in parts),
            ),
            rows=tuple(
                (name, *(_difference(part, baseline, name, measure) for _, part in parts))
                for name in run.predictors
                if name != baseline
            ),
        )
    ]


def _exploratory(run: RunData) -> Table:
    baseline = run.judgement.baseline
    measures = [each for each in run.shown if not each.same(run.primary)]
    return Table(
        caption=f"Other measures, exploratory: difference from {baseline} in points (95% interval), over "
        f"{over(run)}",
        headings=("candidate", *(measure.name.replace("_", " ") for measure in measures)),
        rows=tuple(
            (name, *(_difference(run, baseline, name, measure) for measure in measures))
            for name in run.predictors
            if name != baseline
        ),
    )


def _difference(run: RunData, baseline: str, candidate: str, measure: NamedMeasure) -> str:
    scores = run.scores
    found = difference(run, scores.per_question(baseline, measure), scores.per_question(candidate, measure))
    return f"{points(found.value)} ({points_between(found.low, found.high)})"


def passages(run: RunData) -> Section:
    """What a reader pays for the strict rates."""
    strict = [each for each in at_depths(run) if each.measure.cutoff == 1 or each.mode == "strict"]
    is_mixed = len(run.by_gold) > 1
    rows = tuple(
        (
            named(row.predictor, run.judgement) if part is run else row.predictor,
            *((level, str(row.answerable_questions)) if is_mixed else ()),
            *(percent(row.rates[measure.name]) for measure in strict),
            number(row.lines_per_hit),
            number(row.characters_per_hit, 0),
            number(row.tokens_per_hit, 0),
            percent(row.repeated_pages),
            percent(row.span_precision),
            percent(row.gold_coverage),
        )
        for level, part in run.by_gold.items()
        for row in part.summary_rows
    )
    with_lines = run.summary_rows[0].span_questions
    return Section(
        title="Passages",
        blocks=(
            Table(
                caption=f"Strict rates over {over(run)}, and what their first five hits cost; span precision "
                f"and gold coverage over the {with_lines} whose gold has lines",
                headings=(
                    "predictor",
                    *(("gold", "questions") if is_mixed else ()),
                    *(measure.name.replace("_", " ") for measure in strict),
                    "lines per hit",
                    "characters per hit",
                    "tokens per hit",
                    "repeated pages",
                    "span precision",
                    "gold coverage",
                ),
                rows=rows,
                labels=1 + is_mixed,
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
                caption=f"Every predictor, by {measure} over {over(run)}; p95 over "
                f"{plural(run.summary_rows[0].timed_queries, 'timed query')}",
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
