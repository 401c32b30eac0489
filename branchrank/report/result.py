"""The report sections about rates, differences, statistics, passages and the trade-off."""

from __future__ import annotations

from branchrank.io.table import Cell, Styled, Table
from branchrank.measures.matching import SHARES
from branchrank.measures.measures import NamedMeasure
from branchrank.measures.significance import fragility
from branchrank.measures.verdicts import Comparison
from branchrank.report import plots
from branchrank.report.blocks import Block, Paragraph, Points, Section
from branchrank.report.cautions import about
from branchrank.report.facts import judged_documents
from branchrank.report.rates import (
    at_depths,
    averages,
    hits,
    means,
    mixed_words,
    over,
    rates_plot,
    rates_table,
    value,
)
from branchrank.report.recommendation import recommendation
from branchrank.runs.comparisons import Judgment, pairs_of
from branchrank.runs.estimates import choice, difference, flip_rate, standings
from branchrank.runs.run import RunData, with_others
from branchrank.runs.summary import SummaryRow
from branchrank.runs.words import (
    NOTHING,
    confidence,
    effect,
    gap,
    gap_between,
    is_share,
    margin,
    milliseconds,
    number,
    opening,
    p_value,
    percent,
    plural,
    record,
    sentence,
    size,
)

#: The headings of the label columns in tables that don't have a column for the LLM.
_WITHOUT_LLM = ("predictor", "gold", "questions")


def result(run: RunData) -> Section:
    """Return the section about the recommendation, the hit rates and the differences from the baseline."""
    judgment = run.judgment
    words = Paragraph(text=" ".join([*_scoring_words(run), _bold_words(judgment)]))
    blocks: list[Block] = [recommendation(run), *mixed_words(run), _rates(run), words]
    if judgment.comparisons:
        blocks.append(plots.differences(judgment.comparisons))
    elif run.scores.answerable:
        blocks.append(rates_plot(run))
    if at_depths(run):
        caption = f"Hits with any, half or all of the gold lines, over {over(run)}"
        blocks.append(rates_table(run, f"{caption}, with 95% intervals", at_depths(run), labels=_WITHOUT_LLM))
    chosen = [each for each in run.extra if not is_share(each.name) and not each.same(run.primary)]
    if chosen:
        caption = f"Other requested measures, over {over(run)}, with 95% intervals"
        blocks.append(rates_table(run, caption, chosen, labels=_WITHOUT_LLM))
    return Section(title="Result", blocks=(*blocks, *_flips(run)))


def _rates(run: RunData) -> Table:
    """Return a table with each predictor's hit rates, primary measure, latency and LLM tokens."""
    standard = tuple(measure for measure in hits(run) if measure in run.standard)
    columns = with_others(standard, [run.primary, *hits(run)])
    asks = any(row.llm_calls_per_query for row in run.summary_rows)
    timed = any(row.latency_p50_ms is not None for row in run.summary_rows)

    def costs(row: SummaryRow) -> list[str]:
        times = [milliseconds(row.latency_p50_ms), milliseconds(row.latency_p95_ms)] if timed else []
        return times + ([number(row.llm_tokens_per_query, 0)] if asks else [])

    headings = (*(("p50 ms", "p95 ms") if timed else ()), *(("LLM tokens per query",) if asks else ()))
    caption = f"{averages(columns)} over {over(run)}, with 95% intervals"
    if timed:
        caption += f"; p50 and p95 of {plural(run.summary_rows[0].timed_queries, 'timed query')}"
    if asks:
        caption += f"; LLM tokens over {plural(len(run.asked), 'question')}"
    return rates_table(run, caption, columns, costs=(headings, costs))


def _means(run: RunData) -> Table:
    """Return a table of the means and intervals of all measures that are not hit rates."""
    caption = f"Means over {over(run)}, with 95% intervals"
    return rates_table(run, caption, means(run), labels=_WITHOUT_LLM)


def _scoring_words(run: RunData) -> list[str]:
    """Explain how hits are scored, how failed queries count, and how intervals are computed."""
    modes = {each.mode for each in run.shown}
    words = []
    if modes & {"strict", *SHARES}:
        words.append(
            "A strict hit contains at least one line of the gold, a half hit at least half of the gold's "
            "lines, and a full hit all of the gold's lines."
        )
    if "relaxed" in modes:
        words.append("A relaxed hit is on the gold's page.")
    if "graded" in modes:
        words.append(
            "In graded measures, the gain of a hit is the grade of its judgment. For measures without "
            "grades, such as AP and R, every document judged above 0 is relevant."
        )
    words.append("A failed query counts as a miss.")
    if judged_documents(run) is None:
        words.append(
            "Intervals account for the correlation between questions whose gold is on the same page."
        )
    return words


def _bold_words(judgment: Judgment) -> str:
    if judgment.winner is None:
        return (
            "No predictor is shown in bold, because no lead on the primary measure is significant after "
            "adjustment for multiple comparisons."
        )
    if judgment.all_pairs:
        return (
            "The predictor in bold is significantly better than every other predictor, after adjustment for "
            "multiple comparisons."
        )
    if judgment.winner in judgment.baselines:
        if len(judgment.baselines) > 1:
            return (
                "One of the baselines (in bold) is significantly better than every other predictor, after "
                "adjustment for multiple comparisons."
            )
        return (
            "The baseline (in bold) is significantly better than every candidate, after adjustment for "
            "multiple comparisons."
        )
    which = "the baseline" if len(judgment.baselines) == 1 else "every baseline"
    return (
        f"The best candidate (in bold) is significantly better than {which}, after adjustment for multiple "
        "comparisons. Candidates were not tested against each other."
    )


def _verdicts(run: RunData) -> Points:
    """Return one bullet per comparison, with the verdict, its numbers, and warnings about the two systems."""
    return Points(
        items=tuple(
            (
                Styled(opening(each)),
                sentence(each),
                *(f"Warning: {text}" for text in about(run, each.candidate, each.baseline)),
            )
            for each in run.judgment.comparisons
        )
    )


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
            caption=f"Share of {over(run)} whose repeats have different values of {run.primary.name}",
            headings=("predictor", "repeats", "flip rate"),
            rows=rows,
        )
    ]


def statistics(run: RunData) -> Section:
    """Return the section with the tests of the primary measure and the values of the untested measures."""
    judgment = run.judgment
    if not judgment.comparisons:
        nothing = Paragraph(
            text="There is nothing to compare: the run has only one predictor or no answerable questions."
        )
        return Section(title="Statistics", blocks=(_means(run), nothing))
    first = judgment.comparisons[0]
    one = len(judgment.baselines) == 1
    whom = judgment.baseline if one else "its baseline"
    tests = Table(
        caption=f"{judgment.measure} against {whom}, over {over(run)}",
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
            "deciding labels",
        ),
        rows=tuple(_test_row(each, run, () if one else (each.baseline,)) for each in judgment.comparisons),
        labels=3 if one else 4,
    )
    return Section(
        title="Statistics",
        blocks=(
            _verdicts(run),
            Paragraph(
                text=f"Primary measure: {judgment.measure}. {_baselines(judgment)}. "
                f"{_declared(run)} {_units(run, first)}. Tests and intervals are adjusted for "
                f"{plural(first.family, 'comparison')} (Holm, Bonferroni), with alpha {first.alpha:g}. "
                f"Delta is {margin(first.delta, first.measure)}."
            ),
            tests,
            Paragraph(
                text='"P-floor" is the smallest p-value that is possible for the number of clusters in which '
                'the two systems differ. "Detectable" is the smallest true difference that the test detects '
                "with 80% power. The detectable difference depends on how often the two systems disagree, "
                "and on the correlation between questions of the same cluster. "
                '"Questions needed" is the number of questions that would confirm the observed difference '
                'with 80% power. "Deciding labels" shows how many gold labels would have to change for the '
                "difference to lose significance, and how many gold labels belong to questions on which the "
                "leader scores higher. The effect size for hits is the odds ratio, which is the number of "
                "wins divided by the number of losses (1 means no difference). The effect size for other "
                "measures is d_z, which is the mean difference divided by the standard deviation of the "
                "differences."
            ),
            _means(run),
            *_by_gold(run),
            _exploratory(run),
        ),
    )


def _units(run: RunData, first: Comparison) -> str:
    """Describe the questions and clusters that the tests use."""
    if judged_documents(run) is not None:
        return f"The test has {plural(first.n, 'question')} and no clusters"
    clusters = plural(first.clusters, "cluster")
    return f"The test has {plural(first.n, 'question')} in {clusters} (one for each gold source)"


def _declared(run: RunData) -> str:
    """Describe whether a seal shows that the measure and baseline were chosen before the run."""
    seal = run.record.seal
    if seal is None:
        return "No seal was given (--seal), so the measure and baseline may have been chosen after the run."
    return (
        f"Plan, questions, measure, baseline and alpha match the seal {seal.file} ({seal.digest[:16]}). To "
        "prove that the seal is older than the run, a copy of the seal must exist in another place."
    )


def _baselines(judgment: Judgment) -> str:
    if judgment.all_pairs:
        return "Every pair of predictors is compared"
    names = judgment.baselines
    return f"Baseline: {names[0]}" if len(names) == 1 else f"Baselines: {', '.join(names)}"


def _test_row(each: Comparison, run: RunData, baseline: tuple[str, ...]) -> tuple[Cell, ...]:
    return (
        each.candidate,
        *baseline,
        each.verdict,
        each.test,
        f"{gap(each.difference, each.measure)} ({gap_between(each.ci_low, each.ci_high, each.measure)})",
        effect(each),
        record(each),
        p_value(each.p),
        p_value(each.p_adjusted),
        p_value(each.p_floor),
        NOTHING if each.p_mcnemar is None else p_value(each.p_mcnemar),
        NOTHING if each.mde is None else size(each.mde, each.measure),
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
        # The significance level that Holm's correction uses for this comparison.
        alpha=each.alpha * each.p / each.p_adjusted if each.p_adjusted else each.alpha / each.family,
        seed=run.record.seed,
    )
    return f"{len(found.unsettle)} of {found.candidates}"


def _by_gold(run: RunData) -> list[Table]:
    """Return a table of differences at each gold level, or an empty list if there is only one level."""
    if len(run.by_gold) == 1:
        return []
    judgment, measure = run.judgment, run.primary
    one = len(judgment.baselines) == 1
    parts = list(run.by_gold.items())
    whom = judgment.baseline if one else "the baseline"
    return [
        Table(
            caption=f"{measure.name} by gold level (exploratory): difference from {whom} (95% interval)",
            headings=(
                *(("candidate",) if one else ("candidate", "baseline")),
                *(f"{level} ({plural(len(part.scores.answerable), 'question')})" for level, part in parts),
            ),
            rows=tuple(
                (
                    *((candidate,) if one else (candidate, baseline)),
                    *(_difference(part, baseline, candidate, measure) for _, part in parts),
                )
                for baseline, candidate in pairs_of(judgment.baselines, run.predictors)
            ),
            labels=1 if one else 2,
        )
    ]


def _exploratory(run: RunData) -> Table:
    judgment = run.judgment
    one = len(judgment.baselines) == 1
    whom = judgment.baseline if one else "the baseline"
    measures = [each for each in run.shown if not each.same(run.primary)]
    return Table(
        caption=f"Other measures (exploratory): difference from {whom} (95% interval), over {over(run)}",
        headings=(
            *(("candidate",) if one else ("candidate", "baseline")),
            *(measure.name.replace("_", " ") for measure in measures),
        ),
        rows=tuple(
            (
                *((candidate,) if one else (candidate, baseline)),
                *(_difference(run, baseline, candidate, measure) for measure in measures),
            )
            for baseline, candidate in pairs_of(judgment.baselines, run.predictors)
        ),
        labels=1 if one else 2,
    )


def _difference(run: RunData, baseline: str, candidate: str, measure: NamedMeasure) -> str:
    scores = run.scores
    found = difference(run, scores.per_question(baseline, measure), scores.per_question(candidate, measure))
    return f"{gap(found.value, measure.name)} ({gap_between(found.low, found.high, measure.name)})"


def passages(run: RunData) -> Section:
    """Return the section about the length of the returned passages."""
    strict = [each for each in at_depths(run) if each.measure.cutoff == 1 or each.mode == "strict"]
    with_lines = run.summary_rows[0].span_questions
    headings = ["lines per hit", "characters per hit", "tokens per hit", "repeated pages"]
    caption = f"Mean length of the first five hits, over {over(run)}"
    words = '"Repeated pages" is the share of hits whose page already has a higher-ranked hit.'
    if strict:
        caption = f"Hit rates, and mean length of the first five hits, over {over(run)}"
        words = (
            "A system that returns whole files has a higher rate of strict hits, but each of its hits takes "
            "longer to read. The columns with lines, characters and tokens show the mean length of a hit. "
            f"{words}"
        )
    if with_lines:
        headings += ["span precision", "gold coverage"]
        caption += f"; span precision and gold coverage over the {with_lines} questions whose gold has lines"
        words = (
            '"Span precision" is the share of the returned lines that are gold. "Gold coverage" is the share '
            f"of the gold lines that were returned. {words}"
        )

    def costs(row: SummaryRow) -> list[str]:
        cells = [
            number(row.lines_per_hit),
            number(row.characters_per_hit, 0),
            number(row.tokens_per_hit, 0),
            percent(row.repeated_pages),
            percent(row.span_precision),
            percent(row.gold_coverage),
        ]
        return cells[: len(headings)]

    table = rates_table(run, caption, strict, labels=_WITHOUT_LLM, cell=value, costs=(headings, costs))
    return Section(title="Passages", blocks=(table, Paragraph(text=words)))


def trade_off(run: RunData) -> Section:
    """Return the section that shows quality, latency and LLM cost together."""
    found = standings(run)
    title = "Quality, latency and cost"
    if not found or not run.scores.answerable:
        text = "Latency was not measured, so there is no trade-off to show."
        return Section(title=title, blocks=(Paragraph(text=text),))
    best, chosen = choice(run, found)
    measure = run.primary.name
    others = [name for name in chosen.not_inferior if name != chosen.best]
    highest = max(each.quality for each in found)
    leaders = ", ".join(each.name for each in found if each.quality == highest)
    close = f"shown to be less than {margin(chosen.delta, measure)} worse than {chosen.best}"
    text = f"Highest observed quality: {leaders}. " + (
        f"Systems {close}: {', '.join(others)}." if others else f"No other system was {close}."
    )
    text = (
        f"Quality is {measure.replace('_', ' ')} over {over(run)}. The p95 is computed from "
        f"{plural(run.summary_rows[0].timed_queries, 'timed query')}, and the cost is the mean over "
        f"{plural(len(run.asked), 'question')}. {text}"
    )
    if others:
        cheapest = chosen.cheapest.name
        text += f" The cheapest of these systems (if several cost the same, the fastest) is {cheapest}."
    plot = plots.frontier(found, {each.name for each in best}, measure, _cost_unit(run))
    return Section(title=title, blocks=(plot, Paragraph(text=text)))


def _cost_unit(run: RunData) -> str:
    prices = run.record.prices
    return f"{prices.currency} per query" if prices else "LLM tokens per query"
