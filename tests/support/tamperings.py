"""Ways to doctor a finished run, and what finds each: the table of ``docs/verification.md``.

Where ``finished`` is true, whoever doctors the run also makes tables, reports and digests again.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec

from branchrank.io.files import write_jsonl
from branchrank.measures.matching import judge
from branchrank.questions.question_files import load_questions, questions_digest, write_questions
from branchrank.runs.attribution import DEPTH, gold_ranks, lost_at
from branchrank.runs.directory import QUESTIONS, ROWS, RUN_JSON, TIMINGS_CSV, read_run, write_run
from branchrank.runs.rows import Row, read_rows
from branchrank.runs.scores import hits_of

Doctor = Callable[[Path], None]
Rows = list[dict[str, Any]]

VERIFY, CORPUS, RERUN, SEAL, NOTHING = (
    "`verify`",
    "`verify --corpus`",
    "`verify --rerun`",
    "a copy of the seal",
    "nothing",
)


@dataclass(frozen=True)
class Tampering:
    """One way. ``by`` is the least that finds it, ``before`` whether version 0.1.0 of ``verify`` found it;
    ``says`` is in a finding."""

    name: str
    doctor: Doctor
    by: str = VERIFY
    says: str = ""
    finished: bool = True
    before: bool = False


def replaced(name: str, old: str, new: str) -> Doctor:
    """Replace the first occurrence of ``old`` in a file."""

    def doctor(run: Path) -> None:
        path = run / name
        text = path.read_text(encoding="utf-8")
        assert old in text, (name, old)
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return doctor


def substituted(name: str, pattern: str, new: str) -> Doctor:
    """Replace the first match of ``pattern`` in a file."""

    def doctor(run: Path) -> None:
        text = (run / name).read_text(encoding="utf-8")
        text, count = re.subn(pattern, new, text, count=1)
        assert count == 1, (name, pattern)
        (run / name).write_text(text, encoding="utf-8")

    return doctor


def on_rows(change: Callable[[Rows], Rows | None]) -> Doctor:
    """Change the rows, as dictionaries."""

    def doctor(run: Path) -> None:
        rows = [json.loads(line) for line in (run / ROWS).read_text().splitlines()]
        write_jsonl(run / ROWS, change(rows) or rows)

    return doctor


def row_of(rows: Rows, predictor: str = "local") -> dict[str, Any]:
    """The first row of a predictor whose first hits cover the gold and something else."""
    return next(
        row
        for row in rows
        if row["predictor"] == predictor
        and any(hit["gold"] is not None for hit in row["hits"])
        and len(row["hits"]) > 2
    )


def on_row(change: Callable[[dict[str, Any]], object], predictor: str = "local") -> Doctor:
    """Change one row."""

    def change_rows(rows: Rows) -> None:
        change(row_of(rows, predictor))

    return on_rows(change_rows)


def on_record(change: Callable[[dict[str, Any]], object]) -> Doctor:
    """Change ``run.json``."""

    def doctor(run: Path) -> None:
        record = json.loads((run / RUN_JSON).read_text())
        change(record)
        (run / RUN_JSON).write_text(json.dumps(record))

    return doctor


def on_timings(change: Callable[[list[dict[str, str]]], list[dict[str, str]] | None]) -> Doctor:
    """Change the rows of ``timings.csv``."""

    def doctor(run: Path) -> None:
        rows = list(csv.DictReader(StringIO((run / TIMINGS_CSV).read_text())))
        rows = change(rows) or rows
        stream = StringIO()
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        (run / TIMINGS_CSV).write_text(stream.getvalue())

    return doctor


def setting(**values: Any) -> Doctor:
    """Change settings of the benchmark."""
    return on_record(lambda record: record["settings"]["benchmark"].update(values))


def wrong_hit(row: dict[str, Any]) -> dict[str, Any]:
    """A hit that isn't on the gold."""
    return next(hit for hit in row["hits"] if hit["gold"] is None)


# --- rows ---------------------------------------------------------------------------------------------------


def swap_names(rows: Rows) -> None:
    names = {"local": "sqlite", "sqlite": "local"}
    for row in rows:
        row["predictor"] = names.get(row["predictor"], row["predictor"])


def hit_twice(row: dict[str, Any]) -> None:
    wrong = row["hits"].index(wrong_hit(row))
    row["hits"][wrong:wrong] = [dict(row["hits"][wrong])]
    row["hits"].pop()


def one_more_hit(rows: Rows) -> None:
    row = row_of(rows)
    known = {hit["id"] for hit in row["hits"]}
    other = next(
        hit
        for each in rows
        for hit in each["hits"]
        if each["predictor"] == "local"
        and hit["id"] not in known
        and hit["gold"] is None
        and hit["page"] is None
    )
    row["hits"].append({**other, "score": 0.0, "gain": 0})


def other_gold_ranks(row: dict[str, Any]) -> None:
    row["gold_ranks"] = dict.fromkeys(row["gold_ranks"], 3)


def no_hits(row: dict[str, Any]) -> None:
    row["hits"], row["gold_ranks"], row["lost"] = [], {}, "retrieval"
    for stage in row["trace"]:
        stage["keys"], stage["scores"] = [], []


def all_first(row: dict[str, Any]) -> None:
    for hit in row["hits"]:
        for placement in hit["branches"].values():
            placement["rank"] = 1


def without_calls(rows: Rows) -> None:
    for row in rows:
        row["calls"] = []


def rising(row: dict[str, Any]) -> None:
    row["hits"][-1]["score"] = row["hits"][0]["score"] + 1


def another_node(row: dict[str, Any]) -> None:
    hits = row["hits"]
    wrong_hit(row)["node_id"] = next(
        hit["node_id"] for hit in hits if hit["node_id"] != wrong_hit(row)["node_id"]
    )


def another_id(row: dict[str, Any]) -> None:
    wrong = wrong_hit(row)
    wrong["id"] = wrong["node_id"] + "-elsewhere@1"
    wrong["node_id"] += "-elsewhere"


def shorter_list(row: dict[str, Any]) -> None:
    del row["hits"][3:]
    row["trace"][-1]["keys"], row["trace"][-1]["scores"] = (
        row["trace"][-1][name][:3] for name in ("keys", "scores")
    )


def past_the_end(rows: Rows) -> None:
    wrong = wrong_hit(row_of(rows))
    for row in rows:
        for hit in row["hits"]:
            if hit["id"] == wrong["id"] and hit["gold"] is None:
                hit["line_start"], hit["line_end"] = 900, 903


def halved(name: str) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        for row in rows:
            for hit in row["hits"]:
                hit[name] //= 2

    return change


def copied_list(rows: Rows) -> None:
    """Give the class the hits of the best system; a class leaves no trace that could contradict it."""
    best = {row["question_id"]: row for row in rows if row["predictor"] == "local"}
    for row in rows:
        if row["predictor"] == "mine":
            row["hits"] = best[row["question_id"]]["hits"]


# --- timings and counters -----------------------------------------------------------------------------------


def unasked(rows: list[dict[str, str]]) -> None:
    asked = {row["question_id"] for row in rows}
    unknown = next(
        f"q-{part}-{page}"
        for part in ("lid", "spout")
        for page in range(6)
        if f"q-{part}-{page}" not in asked
    )
    last = rows[-1]["question_id"]
    for row in rows:
        if row["question_id"] == last:
            row["question_id"] = unknown


def low_total(rows: list[dict[str, str]]) -> None:
    for row in rows:
        if row["predictor"] == "hybrid" and row["phase"] == "warm" and row["stage"] in ("total", "compute"):
            row["ms"] = "0.0010"
        if row["predictor"] == "hybrid" and row["phase"] == "warm" and row["stage"] == "llm wait":
            row["ms"] = "0.0000"


def quick_ones(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    totals = {
        row["question_id"]: float(row["ms"])
        for row in rows
        if row["predictor"] == "hybrid" and row["stage"] == "total" and row["phase"] == "warm"
    }
    slowest = sorted(totals, key=lambda key: -totals[key])[:10]
    return [row for row in rows if row["predictor"] != "hybrid" or row["question_id"] not in slowest]


def half_time(rows: list[dict[str, str]]) -> None:
    for row in rows:
        row["ms"] = f"{float(row['ms']) / 2:.4f}"


def wait_in_compute(rows: list[dict[str, str]]) -> None:
    for row in rows:
        if row["stage"] == "compute":
            row["ms"] = "0.0000"


def no_counters(record: dict[str, Any]) -> None:
    record["computed"], record["reused"] = {}, {}


def higher_top_k(record: dict[str, Any]) -> None:
    record["top_k"] = record["settings"]["benchmark"]["top_k"] = 10


def system(name: str, *path: str | int, value: Any) -> Doctor:
    """Change a value in the record of a system."""

    def change(record: dict[str, Any]) -> None:
        place: Any = next(each["system"] for each in record["predictors"] if each["name"] == name)
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return on_record(change)


def other_seed(record: dict[str, Any]) -> None:
    record["seed"] = record["settings"]["benchmark"]["sample_seed"] = 43


# --- questions ----------------------------------------------------------------------------------------------


def judged_again(run: Path, rows: list[Row], gold: dict[str, frozenset[str]]) -> list[Row]:
    """The rows as the questions in the run's directory judge them; ``gold`` names the new gold's keys."""
    questions = {question.id: question for question in load_questions(run / QUESTIONS)}
    made = []
    for row in rows:
        question = questions.get(row.question_id)
        if question is None or row.question_id not in gold:
            made += [row] if question is not None else []
            continue
        judged = judge(hits_of(row), question).hits
        hits = tuple(
            msgspec.structs.replace(hit, gain=each.gain, gold=each.gold, page=each.page)
            for hit, each in zip(row.hits, judged, strict=True)
        )
        ranks = gold_ranks(row.trace, gold[row.question_id])
        found = any(hit.gold is not None for hit in hits[:DEPTH])
        lost = lost_at(row.stages, ranks, found) if row.stages and question.answerable else ""
        made.append(msgspec.structs.replace(row, hits=hits, gold_ranks=ranks, lost=lost))
    return made


def changed_questions(run: Path, lines: Rows, gold: dict[str, frozenset[str]]) -> None:
    """Put these questions in place of the run's, and make everything that depends on them fit."""
    write_jsonl(run / QUESTIONS, lines)
    questions = load_questions(run / QUESTIONS)
    write_questions(run / QUESTIONS, questions)
    ids = {question.id for question in questions}
    rows = judged_again(run, [row for row in read_rows(run / ROWS) if row.question_id in ids], gold)
    write_jsonl(run / ROWS, rows)
    golden = {question.id for question in questions if question.gold}
    facts = [json.loads(line) for line in (run / "gold.jsonl").read_text().splitlines()]
    write_jsonl(run / "gold.jsonl", [each for each in facts if each["question_id"] in golden])
    record = read_run(run)
    looked_up = len(ids), sum(row.predictor != "mine" for row in rows) - len(ids)
    write_run(
        run,
        msgspec.structs.replace(
            record,
            question_ids=tuple(question.id for question in questions),
            questions_digest=questions_digest(questions),
            computed={**record.computed, "gold keys": looked_up[0]},
            reused={**record.reused, "gold keys": looked_up[1]},
        ),
    )


def question_lines(run: Path) -> Rows:
    return [json.loads(line) for line in (run / QUESTIONS).read_text().splitlines()]


def untimed(run: Path) -> str:
    """A question that the latency pass did not draw."""
    timed = {row["question_id"] for row in csv.DictReader(StringIO((run / TIMINGS_CSV).read_text()))}
    return next(
        line["id"] for line in question_lines(run) if line["id"] not in timed and "source_file" in line
    )


def without_question(run: Path) -> None:
    lost = untimed(run)
    changed_questions(run, [line for line in question_lines(run) if line["id"] != lost], {})


def unanswerable(run: Path) -> None:
    lost, lines = untimed(run), question_lines(run)
    for line in lines:
        if line["id"] == lost:
            for name in [name for name in line if name.startswith(("answer_", "source_"))]:
                del line[name]
            line["answerable"] = False
    changed_questions(run, lines, {lost: frozenset()})


def gold_onto_a_miss(run: Path, *, quote: bool = True) -> None:
    """Move the gold of a question to where the hybrid system's first hit is."""
    rows = {row.key: row for row in read_rows(run / ROWS)}
    lines = question_lines(run)
    for line in lines:
        row = rows[line["id"], "hybrid", 0]
        if (
            "source_file" not in line
            or row.hits[0].gold is not None
            or row.hits[0].source != line["source_file"]
        ):
            continue
        hit = row.hits[0]
        line["answer_line_start"], line["answer_line_end"] = hit.line_start, hit.line_end
        if not quote:
            del line["answer_quote"]
        keys = frozenset({hit.id, str(hit.node_id)})
        changed_questions(run, lines, {line["id"]: keys})
        return
    raise AssertionError("the hybrid system's first hit is always right")


# --- pictures and pages -------------------------------------------------------------------------------------


def moved_bar(svg: str) -> str:
    """A drawing whose marks are elsewhere."""
    return re.sub(r"translate\((\d+)", lambda found: f"translate({int(found[1]) + 40}", svg)


def stamped_plot(run: Path) -> None:
    path = run / "plots" / "differences.svg"
    svg = moved_bar(path.read_text())
    path.write_text(re.sub(r"<!-- altair .*-->", "<!-- altair 1.0, vl-convert 0.1 -->", svg))


def stamped_and_inlined(run: Path) -> None:
    before = (run / "plots" / "differences.svg").read_text().rpartition("\n<!--")[0]
    before = re.sub(r"<style>svg\{.*?</style>", "", before, count=1)
    stamped_plot(run)
    page = (run / "report.html").read_text()
    assert before in page
    (run / "report.html").write_text(page.replace(before, moved_bar(before)))


def first_rate(run: Path) -> None:
    lines = (run / "summary.csv").read_text().splitlines()
    cells = lines[1].split(",")
    cells[3] = "0.123"
    lines[1] = ",".join(cells)
    (run / "summary.csv").write_text("\n".join(lines) + "\n")


def move_span(row: dict[str, Any]) -> None:
    hit = next(hit for hit in row["hits"] if hit["gold"] is not None)
    hit["line_start"], hit["line_end"] = 1, 2


def flip_gain(row: dict[str, Any]) -> None:
    next(hit for hit in row["hits"] if hit["gold"] is not None)["gain"] = 0


def rename_lost(row: dict[str, Any]) -> None:
    row["lost"] = "rerank"


def edited(name: str, doctor: Doctor, **more: Any) -> Tampering:
    """A careless edit: no digest and no table is made again. The first version found these."""
    return Tampering(name, doctor, finished=False, **{"before": True, **more})


TAMPERINGS = (
    edited("a rate in summary.csv", first_rate, says="summary.csv: line 2 (local)"),
    edited(
        "an outcome in questions.csv", replaced("questions.csv", ",hit,", ",miss,"), says="column outcome"
    ),
    edited("a token in llm_calls.csv", replaced("llm_calls.csv", ",100,", ",10,"), says="prompt_tokens"),
    edited("a row deleted", on_rows(lambda rows: rows[1:]), says="is missing"),
    edited("a row repeated", on_rows(lambda rows: [*rows, rows[-1]]), says="occurs twice"),
    edited("a gain flipped", on_row(flip_gain), says="judgment"),
    edited("a gold hit's lines moved", on_row(move_span), says="rows.jsonl: has changed"),
    edited("a lost stage renamed", on_row(rename_lost), says="has 'rerank' as the stage that lost"),
    edited(
        "a figure in report.md",
        substituted("report.md", r"\| \d+/\d+/\d+ \|", "| 19/1/0 |"),
        says="report.md",
    ),
    edited(
        "a verdict in report.md",
        substituted("report.md", r"hybrid vs local: [a-z ]+", "hybrid vs local: better"),
        says="report.md: line",
    ),
    edited(
        "a figure in report.html",
        replaced("report.html", '<td class="figure">', '<td class="figure">1'),
        says="html: line",
    ),
    edited(
        "a question in report.html",
        replaced("report.html", "number of the kettle", "number of the cattle"),
        says="html: line",
    ),
    edited("a plot", replaced("plots/differences.svg", "local", "LOCAL"), says="plots/differences.svg: line"),
    edited("a time in timings.csv", on_timings(half_time), says="timings.csv: has changed"),
    edited("the seed", on_record(lambda record: record.update(seed=43)), says="seed: is 43"),
    edited(
        "the gold's lines",
        replaced(QUESTIONS, '"answer_line_start":8', '"answer_line_start":7'),
        says="questions.jsonl: has changed",
    ),
    edited(
        "a slice in gold.jsonl",
        replaced("gold.jsonl", '"depth":1', '"depth":3'),
        says="gold.jsonl: has changed",
    ),
    edited("the hard set", lambda run: (run / "hard.jsonl").write_text("{}\n") and None, says="hard.jsonl"),
    edited("summary.csv deleted", lambda run: (run / "summary.csv").unlink(), says="summary.csv: is missing"),
    edited(
        "passages altered in report.html",
        replaced("report.html", "Clean the kettle every", "Throw the kettle away every"),
        says="report.html: line",
        before=False,
    ),
    edited(
        "a plot replaced, said to be drawn by another version",
        stamped_plot,
        says="plots/differences.svg",
        before=False,
    ),
    edited(
        "the same, in report.html as well", stamped_and_inlined, says="plots/differences.svg", before=False
    ),
    Tampering("timings of a question that was not drawn", on_timings(unasked), says="is missing"),
    Tampering("a total below its stages", on_timings(low_total), says="has stages of"),
    Tampering(
        "compute that is not the total without the wait",
        on_timings(wait_in_compute),
        says="has a time for compute",
    ),
    Tampering("the slowest ten queries removed", on_timings(quick_ones), says="is missing"),
    Tampering(
        "timings.csv deleted", lambda run: (run / TIMINGS_CSV).unlink(), says="timings.csv: is missing"
    ),
    Tampering("gold.jsonl deleted", lambda run: (run / "gold.jsonl").unlink(), says="gold.jsonl: is missing"),
    Tampering("counters of shared work emptied", on_record(no_counters), says="gold keys"),
    Tampering("the seed, in both places", on_record(other_seed), says="is missing"),
    Tampering("gold moved onto a wrong hit", gold_onto_a_miss, says="gold: the quote is not in"),
    Tampering(
        "slices by content changed",
        replaced("gold.jsonl", '"content":"prose"', '"content":"code"'),
        says="differs from the corpus",
    ),
    Tampering(
        "the corpus digest",
        on_record(lambda record: record.update(corpus_digest="0" * 64)),
        by=CORPUS,
        says="its digest is different",
    ),
    Tampering("names of two systems swapped in the rows", on_rows(swap_names), by=RERUN, says="rerun: "),
    Tampering(
        "a hit's id from another section",
        on_row(lambda row: wrong_hit(row).update(id=row["hits"][0]["node_id"] + "x@1")),
        by=RERUN,
        says="rerun: ",
    ),
    Tampering("a hit's node from another section", on_row(another_node), by=RERUN, says="rerun: "),
    Tampering("a hit's id and node from another section", on_row(another_id), by=RERUN, says="rerun: "),
    Tampering("rising scores", on_row(rising), by=RERUN, says="rerun: "),
    Tampering("a hit twice", on_row(hit_twice), by=RERUN, says="rerun: "),
    Tampering("more hits than top_k", on_rows(one_more_hit), by=RERUN, says="rerun: "),
    Tampering("hits cut off", on_row(shorter_list), by=RERUN, says="rerun: "),
    Tampering("gold ranks against the hits", on_row(other_gold_ranks), by=RERUN, says="rerun: "),
    Tampering("a row without hits that is ok", on_row(no_hits), by=RERUN, says="rerun: "),
    Tampering("every rank in the branches 1", on_row(all_first), by=RERUN, says="rerun: "),
    Tampering("an LLM's calls removed", on_rows(without_calls), by=RERUN, says="rerun: "),
    Tampering("top_k raised", on_record(higher_top_k), by=RERUN, says="rerun: "),
    Tampering(
        "a parameter of the fusion changed", system("local", "fuse", "k", value=10), by=RERUN, says="rerun: "
    ),
    Tampering("hits past the end of their file", on_rows(past_the_end), by=RERUN, says="rerun: "),
    Tampering(
        "every hit's characters halved",
        on_rows(halved("characters")),
        by=RERUN,
        says="rerun: ",
    ),
    Tampering(
        "every hit's tokens halved",
        on_rows(halved("tokens")),
        by=RERUN,
        says="rerun: ",
    ),
    Tampering("the winner's lists given to a class", on_rows(copied_list), by=RERUN, says="rerun: hit 1"),
    Tampering(
        "a parameter of a branch changed",
        system("pageindex", "branches", 0, "tree", "beam", value=1),
        by=RERUN,
        says="rerun: ",
    ),
    Tampering("a question deleted", without_question, by=SEAL, says="the questions: sealed"),
    Tampering("a question made unanswerable", unanswerable, by=SEAL, says="the questions: sealed"),
    Tampering(
        "gold moved onto a wrong hit, its quote removed",
        lambda run: gold_onto_a_miss(run, quote=False),
        by=SEAL,
        says="the questions: sealed",
    ),
    Tampering(
        "the primary measure changed afterwards",
        setting(primary="relaxed_hit@1"),
        by=SEAL,
        says="benchmark.primary: sealed",
    ),
    Tampering(
        "the baseline changed afterwards",
        setting(baseline="mine"),
        by=SEAL,
        says="benchmark.baseline: sealed",
    ),
    Tampering("alpha changed afterwards", setting(alpha=0.5), by=SEAL, says="benchmark.alpha: sealed"),
    Tampering(
        "the split named afterwards",
        on_record(lambda record: record.update(split="test")),
        by=SEAL,
        says="--split: sealed",
    ),
    Tampering("every time halved", on_timings(half_time), by=NOTHING),
)
