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

from branchrank.core.io.files import write_jsonl
from branchrank.questions.question_files import (
    load_questions,
    questions_digest,
    sample_questions,
    write_questions,
)
from branchrank.runs.directory import QUESTIONS, ROWS, RUN_JSON, TIMINGS_CSV, read_run, write_run
from branchrank.runs.rows import read_rows
from branchrank.runs.warnings import warnings_of

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
    """One way. ``by`` is the least that finds it, and ``says`` is in a finding."""

    name: str
    doctor: Doctor
    by: str = VERIFY
    says: str = ""
    finished: bool = True


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


def in_order(rows: Rows, names: list[str]) -> Rows:
    """Sort the rows by question and by the place of their predictor in ``names``."""
    ids = list(dict.fromkeys(row["question_id"] for row in rows))
    return sorted(rows, key=lambda row: (ids.index(row["question_id"]), names.index(row["predictor"])))


def predictors(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["predictor"] for row in rows))


def swap_names(rows: Rows) -> Rows:
    names, before = {"local": "sqlite", "sqlite": "local"}, predictors(rows)
    for row in rows:
        row["predictor"] = names.get(row["predictor"], row["predictor"])
    return in_order(rows, before)


def other_gold_ranks(row: dict[str, Any]) -> None:
    row["gold_ranks"] = dict.fromkeys(row["gold_ranks"], 3)


def without_calls(rows: Rows) -> None:
    for row in rows:
        row["calls"] = []


def rising(row: dict[str, Any]) -> None:
    row["hits"][-1]["score"] = row["hits"][0]["score"] + 1


def copied_list(rows: Rows) -> None:
    """Give the class the hits of the best system; a class leaves no trace that could contradict it."""
    best = {row["question_id"]: row for row in rows if row["predictor"] == "local"}
    for row in rows:
        if row["predictor"] == "mine":
            row["hits"] = best[row["question_id"]]["hits"]


def credit_by_quote(rows: Rows) -> None:
    """Credit a hit on the gold's page with a quote that its lines lack."""
    for row in rows:
        pages = {hit["page"] for hit in row["hits"] if hit["gold"] is not None}
        for hit in row["hits"]:
            if hit["gold"] is None and hit["page"] in pages:
                right = next(each for each in row["hits"] if each["gold"] is not None)
                hit.update(gold=right["gold"], gain=right["gain"])
                right.update(gold=None, gain=0)
                return
    raise AssertionError("no row has another hit on the page of its gold")


def invert(rows: Rows) -> Rows:
    """Put the second predictor's row of each question first."""
    first, second, *others = predictors(rows)
    return in_order(rows, [second, first, *others])


def other_baseline(run: Path) -> None:
    on_rows(invert)(run)
    on_record(lambda record: record["predictors"].insert(0, record["predictors"].pop(1)))(run)


def without_predictor(run: Path) -> None:
    on_rows(lambda rows: [row for row in rows if row["predictor"] != "sqlite"])(run)
    on_timings(lambda rows: [row for row in rows if row["predictor"] != "sqlite"])(run)
    kept = on_record(
        lambda record: record.update(
            predictors=[each for each in record["predictors"] if each["name"] != "sqlite"]
        )
    )
    kept(run)


def index_fact(**facts: Any) -> Doctor:
    """Change what ``run.json`` says about the index."""
    return on_record(lambda record: record["indexes"][0].update(facts))


# --- timings and counters -----------------------------------------------------------------------------------


def half_time(rows: list[dict[str, str]]) -> None:
    for row in rows:
        row["ms"] = f"{float(row['ms']) / 2:.4f}"


def invented_draw(run: Path) -> None:
    """Another seed, and times invented for the questions that it draws."""
    setting(sample_seed=7)(run)
    on_record(lambda record: record.update(seed=7))(run)
    count = read_run(run).settings["benchmark"]["latency_sample"]
    drawn = iter(sample_questions(load_questions(run / QUESTIONS), count, 7))
    renamed: dict[str, str] = {}

    def change(rows: list[dict[str, str]]) -> None:
        for row in rows:
            if row["question_id"] not in renamed:
                renamed[row["question_id"]] = next(drawn).id
            row["question_id"] = renamed[row["question_id"]]

    on_timings(change)(run)


def slowest(rows: list[dict[str, str]]) -> str:
    """The question whose query took `local` the most time."""
    own = [
        row for row in rows if (row["predictor"], row["phase"], row["stage"]) == ("local", "warm", "total")
    ]
    return max(own, key=lambda row: float(row["ms"]))["question_id"]


def without_slowest(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    key = ("local", slowest(rows))
    return [row for row in rows if (row["predictor"], row["question_id"]) != key]


def failed_slowest(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    failed = {"question_id": slowest(rows), "phase": "failed", "stage": "total", "ms": "0.0000"}
    kept = without_slowest(rows)
    return sorted([*kept, {"predictor": "local", **failed}], key=lambda row: row["predictor"])


def relabel(run: Path) -> None:
    """Say in the record and in the rows that a class uses no LLM."""
    relabel_record(run)
    on_rows(lambda rows: [row | {"llm": "none"} if row["predictor"] == "mine" else row for row in rows])(run)


def relabel_record(run: Path) -> None:
    on_record(lambda record: record["predictors"][-1].update(llm="none"))(run)


def system(name: str, *path: str | int, value: Any) -> Doctor:
    """Change a value in the record of a system."""

    def change(record: dict[str, Any]) -> None:
        place: Any = next(each["system"] for each in record["predictors"] if each["name"] == name)
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return on_record(change)


# --- questions ----------------------------------------------------------------------------------------------


def changed_questions(run: Path, lines: Rows) -> None:
    """Put these questions in place of the run's, and make the plan and the rows fit."""
    write_jsonl(run / QUESTIONS, lines)
    questions = load_questions(run / QUESTIONS)
    write_questions(run / QUESTIONS, questions)
    ids = [question.id for question in questions]
    rows = [json.loads(line) for line in (run / ROWS).read_text().splitlines()]
    write_jsonl(run / ROWS, [row for row in rows if row["question_id"] in ids])
    golden = {question.id for question in questions if question.gold}
    facts = [json.loads(line) for line in (run / "gold.jsonl").read_text().splitlines()]
    write_jsonl(run / "gold.jsonl", [each for each in facts if each["question_id"] in golden])
    digest = questions_digest(questions)
    record = msgspec.structs.replace(read_run(run), question_ids=tuple(ids), questions_digest=digest)
    warnings = warnings_of(read_rows(run / ROWS), record, questions)
    write_run(run, msgspec.structs.replace(record, warnings=warnings))


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
    changed_questions(run, [line for line in question_lines(run) if line["id"] != lost])


def gold_onto_a_miss(run: Path) -> None:
    """Move the gold of a question to other lines."""
    lines = question_lines(run)
    line = next(line for line in lines if line.get("answer_quote"))
    line["answer_line_start"] = line["answer_line_end"] = 1
    changed_questions(run, lines)


# --- pictures and pages -------------------------------------------------------------------------------------


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


def uncredit(row: dict[str, Any]) -> None:
    """Take the credit of a hit on the gold away, and leave its lines."""
    hit = next(hit for hit in row["hits"] if hit["gold"] is not None)
    hit.update(gold=None, gain=1)


def rename_lost(row: dict[str, Any]) -> None:
    row["lost"] = "rerank"


def edited(name: str, doctor: Doctor, **more: Any) -> Tampering:
    """A careless edit: no digest and no table is made again."""
    return Tampering(name, doctor, finished=False, **more)


TAMPERINGS = (
    edited("a rate in summary.csv", first_rate, says="summary.csv: line 2, character"),
    edited("an outcome in questions.csv", replaced("questions.csv", ",hit,", ",miss,"), says=",miss,"),
    edited("a token in llm_calls.csv", replaced("llm_calls.csv", ",100,", ",10,"), says=",10,"),
    edited("a row deleted", on_rows(lambda rows: rows[1:]), says="is missing"),
    edited("a row repeated", on_rows(lambda rows: [*rows, rows[-1]]), says="occurs twice"),
    edited("a gold hit's lines moved", on_row(move_span), says="rows.jsonl: has changed"),
    edited(
        "a figure in report.md",
        substituted("report.md", r"\| \d+/\d+/\d+ \|", "| 19/1/0 |"),
        says="report.md",
    ),
    edited(
        "a question in report.html",
        replaced("report.html", "number of the kettle", "number of the cattle"),
        says="html: line",
    ),
    edited("a plot", replaced("plots/differences.svg", "local", "LOCAL"), says="plots/differences.svg: line"),
    edited("a time in timings.csv", on_timings(half_time), says="timings.csv: has changed"),
    edited("the seed", on_record(lambda record: record.update(seed=43)), says="run.json: has changed"),
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
    Tampering("a row deleted", on_rows(lambda rows: rows[1:]), says="predictor 'local': is missing"),
    Tampering(
        "timings.csv deleted", lambda run: (run / TIMINGS_CSV).unlink(), says="timings.csv: is missing"
    ),
    Tampering("gold.jsonl deleted", lambda run: (run / "gold.jsonl").unlink(), says="gold.jsonl: is missing"),
    Tampering("gold moved to other lines", gold_onto_a_miss, says="gold: the quote is not in"),
    Tampering(
        "slices by content changed",
        replaced("gold.jsonl", '"content":"prose"', '"content":"code"'),
        says="differs from the corpus",
    ),
    Tampering("rows in another order", on_rows(invert), says="is not in the plan's order"),
    Tampering(
        "a hit credited by a quote that its lines lack",
        on_rows(credit_by_quote),
        says="gold is 0, should be None",
    ),
    Tampering("the credit of a hit removed", on_row(uncredit), says="gold is None, should be 0"),
    Tampering("a gain flipped", on_row(flip_gain), says="gain is 0, should be 2"),
    Tampering(
        "an invented seal",
        on_record(lambda record: record.update(seal={"file": "plan.seal", "digest": "0" * 64})),
        says="run.json: seal: is",
    ),
    Tampering(
        "warnings emptied",
        on_record(lambda record: record.update(warnings=[])),
        says="run.json: warnings: is ()",
    ),
    Tampering(
        "the counts of failures and fallbacks",
        on_record(lambda record: record.update(failures=3, fallbacks=2)),
        says="run.json: failures: is 3, should be 0",
    ),
    Tampering("the slowest query left out", on_timings(without_slowest), says="predictor 'local': the timed"),
    Tampering("a class with an LLM relabelled `none` in run.json", relabel_record, says="should be none"),
    Tampering(
        "the corpus digest",
        on_record(lambda record: record.update(corpus_digest="0" * 64)),
        by=CORPUS,
        says="its digest is different",
    ),
    Tampering("names of two systems swapped in the rows", on_rows(swap_names), by=RERUN, says="rerun: "),
    Tampering(
        "a class with an LLM relabelled `none` everywhere", relabel, by=RERUN, says="the class names rented"
    ),
    Tampering("a lost stage renamed", on_row(rename_lost), by=RERUN, says="rerun: lost is '', was 'rerank'"),
    Tampering(
        "a hit's id from another section",
        on_row(lambda row: wrong_hit(row).update(id=row["hits"][0]["node_id"] + "x@1")),
        by=RERUN,
        says="rerun: ",
    ),
    Tampering("rising scores", on_row(rising), by=RERUN, says="rerun: "),
    Tampering("gold ranks against the hits", on_row(other_gold_ranks), by=RERUN, says="rerun: "),
    Tampering("an LLM's calls removed", on_rows(without_calls), by=RERUN, says="rerun: calls 1 is"),
    Tampering(
        "a parameter of the fusion changed", system("local", "fuse", "k", value=10), by=RERUN, says="rerun: "
    ),
    Tampering("the winner's lists given to a class", on_rows(copied_list), by=RERUN, says="rerun: hits 1"),
    Tampering(
        "a parameter of a branch changed",
        system("pageindex", "branches", 0, "tree", "beam", value=1),
        by=RERUN,
        says="rerun: ",
    ),
    Tampering(
        "the path of the corpus emptied",
        on_record(lambda record: record.update(corpus="")),
        by=CORPUS,
        says="is empty",
    ),
    Tampering(
        "the embedder's name", index_fact(embedder="text-embedding-3-large"), by=RERUN, says="embedder is"
    ),
    Tampering(
        "an index's chunks and dimension", index_fact(chunks=9, dimension=7), by=RERUN, says="dimension is"
    ),
    Tampering(
        "an index's vector store and recall",
        index_fact(vector_store="chroma", recall=0.5, recall_depth=40),
        by=RERUN,
        says="vector_store is",
    ),
    Tampering(
        "an index's settings",
        on_record(lambda record: record["index_settings"]["default"].update(chunk_tokens=512)),
        by=RERUN,
        says="has no index",
    ),
    Tampering(
        "a setting of the BM25 index",
        on_record(lambda record: record["settings"]["bm25"].update(k1=5.0)),
        by=RERUN,
        says="rerun: ",
    ),
    Tampering("a question deleted", without_question, by=SEAL, says="the questions: sealed"),
    Tampering(
        "the primary measure changed afterwards",
        setting(primary="relaxed_hit@1"),
        by=SEAL,
        says="benchmark.primary: sealed",
    ),
    Tampering(
        "the split named afterwards",
        on_record(lambda record: record.update(split="test")),
        by=SEAL,
        says="--split: sealed",
    ),
    Tampering("a predictor dropped", without_predictor, by=SEAL, says="the predictors: sealed"),
    Tampering("another baseline, by the order of predictors", other_baseline, by=SEAL, says="the predictors"),
    Tampering("delta", setting(delta=0.2), by=SEAL, says="benchmark.delta: sealed"),
    Tampering("the seed, with invented times (with an LLM)", invented_draw, by=RERUN, says="seed is 7"),
    Tampering("every time halved", on_timings(half_time), by=NOTHING),
    Tampering("slow queries counted as failed", on_timings(failed_slowest), by=NOTHING),
    Tampering(
        "the first queries left out of timings.csv",
        on_timings(
            lambda rows: [row for row in rows if (row["predictor"], row["phase"]) != ("local", "first")]
        ),
        by=NOTHING,
    ),
    Tampering(
        "the counts of computed and reused results",
        on_record(lambda record: record.update(computed={}, reused={"dense": 9})),
        by=NOTHING,
    ),
    Tampering("an index's build time and size", index_fact(build_seconds=0.1, bytes=9), by=NOTHING),
    Tampering(
        "the time of the run (`created`)",
        on_record(lambda record: record.update(created="2020-01-01T00:00:00+00:00")),
        by=NOTHING,
    ),
    Tampering(
        "the code, packages and machine (`provenance`)",
        on_record(lambda record: record["provenance"].update(git_commit="0" * 40, processor="abacus")),
        by=NOTHING,
    ),
    Tampering(
        "the count of resumed rows", on_record(lambda record: record.update(resumed_rows=3)), by=NOTHING
    ),
    Tampering(
        "settings that the records of systems and indexes repeat",
        on_record(
            lambda record: (
                record["settings"]["hybrid"].update(rrf_k=1),
                record["settings"]["index"].update(embedder="text-embedding-3-large"),
            )
        ),
        by=NOTHING,
    ),
)
