"""Benchmark `local`, `pageindex` and `hybrid` with scripted LLMs of known accuracy and with a real LLM.

1. ``record`` runs `local`, `pageindex` and `hybrid` without an LLM, and `pageindex` and `hybrid` with four
   scripted LLMs. The scripted LLMs read the gold in the question file:

   - ``perfect`` selects the entries that contain the gold. If the prompt shows no entry that contains the
     gold, ``perfect`` selects the ancestors of the gold. If the prompt shows neither the gold nor an ancestor
     of the gold, ``perfect`` selects entries in a random order.
   - ``right-70`` selects the same entries as ``perfect`` for a random sample of about 70% of the questions.
     For the remaining questions (about 30%), ``right-70`` selects wrong entries, if the prompt shows any.
   - ``random`` selects entries in a random order.
   - ``first-shown`` selects entries in the order in which the prompt shows them.

   With ``--base-url``, ``record`` also runs a real model on ``MODEL_QUESTIONS`` questions with short prompts.
2. Calls are recorded with ``--llm-record``. ``calls.jsonl`` contains the digest of each call (the key in a
   cassette), the question's id, the stage, the labels in the reply, and the numbers of tokens.
   ``calls.jsonl`` does not contain the prompts.
3. ``replay`` creates cassettes from ``calls.jsonl`` and repeats two runs without a server: the run with
   scripted LLMs and the run with the real model. Every result is compared with ``figures.json``. A replay
   needs the corpus and the questions, because the key of a call is the digest of its prompt.
4. ``record`` writes ``calls.jsonl``, ``figures.json``, the plots and the page. Without ``--base-url``, or
   with ``--only scripted``, the recorded calls to the real model are replayed. With ``--only model``, the
   recorded calls to the scripted LLMs are replayed.

    python benchmarks/llm_abc.py record DATA_DIR QUESTIONS [--base-url URL] [--only scripted|model]
        [--cassettes FOLDER]
    python benchmarks/llm_abc.py replay DATA_DIR QUESTIONS

``DATA_DIR`` is an indexed workspace of the corpus.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from tree_search import ENTRY, Gold, chance, known_gold, oracle

from branchrank import Run, System, Workspace
from branchrank.core.errors import ReplayError
from branchrank.core.io.files import digest_file
from branchrank.core.records import Record
from branchrank.core.spec import LLMEndpoint
from branchrank.questions.question_files import load_questions
from branchrank.reports.drawing import draw, standalone
from branchrank.reports.result import rates_plot
from branchrank.scoring.comparison import Comparison
from branchrank.search.llm.cassette import Cassette, _checksum
from branchrank.search.llm.prompts import excerpt, read_labels
from branchrank.search.llm.request import CallResult, LLMReply, Usage, estimate_tokens

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from support.scripted_llm import Action, Chat, ScriptedLLM, say  # noqa: E402

RESULTS = ROOT / "docs" / "results"
KEPT = RESULTS / "llm"
CALLS, FIGURES, PAGE = KEPT / "calls.jsonl", KEPT / "figures.json", RESULTS / "llm.md"
MODEL = "smollm2"
MODEL_QUESTIONS = 20
ACCURACY = 0.7
#: The URL of a server that is never contacted.
NOWHERE = "http://127.0.0.1:9/v1"
ARMS = ("perfect", "right-70", "random", "first-shown")
MODEL_SETTINGS = {
    "hybrid.model": MODEL,
    "pageindex.model": MODEL,
    "hybrid.candidate_cap": 20,
    "hybrid.context_tokens": 1500,
    "pageindex.llm_final_only": True,
    "pageindex.final_candidates": 6,
    "llm.completion_tokens": 96,
    "llm.deadline_s": 900.0,
    "llm.concurrency": 1,
}


def named(arm: str, shown: dict[str, str], gold: Gold, query: str) -> list[str]:
    """Return the labels that a scripted LLM selects, best first."""
    if arm == "first-shown":
        return list(shown)
    drawn = chance(shown, gold)
    right = oracle(shown, gold)
    if arm == "random":
        return drawn
    if arm == "right-70" and random.Random(f"accuracy/{query}").random() >= ACCURACY:
        return [label for label in drawn if label not in right] or drawn
    return right or drawn


def script(workspace: Workspace, questions: Path) -> Any:
    """Return a function that answers each request as the scripted LLM that the request names."""
    golds = {each.question: known_gold(workspace.tree, each) for each in load_questions(questions)}

    def answer(chat: Chat, number: int) -> Action:
        shown = dict(ENTRY.findall(chat.prompt))
        query = max((text for text in golds if excerpt(text, 2000) in chat.prompt), key=len)
        schema = chat.body["response_format"]["json_schema"]["schema"]
        most = schema["properties"]["ids"]["maxItems"]
        reply = json.dumps({"ids": named(chat.body["model"], shown, golds[query], query)[:most]})
        spent = {"prompt_tokens": estimate_tokens(chat.prompt), "completion_tokens": estimate_tokens(reply)}
        return say(reply, usage=spent)

    return answer


def scripted_systems(workspace: Workspace, url: str) -> list[str | System]:
    """Return the systems that are compared.

    The systems are `local`, `pageindex` and `hybrid` without an LLM, and `pageindex` and `hybrid` with each
    scripted LLM.
    """
    asking = {"hybrid.base_url": url, "hybrid.model": "m", "pageindex.base_url": url, "pageindex.model": "m"}
    systems: list[str | System] = ["local", "pageindex", "hybrid"]
    with Workspace.open(workspace.data_dir, settings=asking) as asked:
        for name in ("pageindex", "hybrid"):
            for arm in ARMS:
                endpoint = LLMEndpoint(base_url=url, model=arm)
                system = msgspec.structs.replace(asked.system(name), name=f"{name}-{arm}", llm=endpoint)
                systems.append(system)
    return systems


def run(
    data_dir: Path, questions: Path, reports: Path, cassette: Path, *, url: str, how: str, model: bool
) -> Run:
    """Run the benchmark with the real model if ``model`` is true, and with the scripted LLMs otherwise.

    ``how`` is ``record`` (write the calls to the cassette) or ``replay`` (read the calls from the cassette).
    """
    settings: dict[str, object] = {f"llm.{how}": str(cassette)}
    options: dict[str, Any] = {"experiment": "llm-scripted", "baseline": "hybrid"}
    if model:
        settings |= MODEL_SETTINGS | {"hybrid.base_url": url, "pageindex.base_url": url}
        options = {"experiment": "llm-model", "sample_size": MODEL_QUESTIONS}
    with Workspace.open(data_dir, settings=settings) as workspace:
        systems = ["local", "pageindex", "hybrid"] if model else scripted_systems(workspace, url)
        return workspace.benchmark(
            systems,
            questions=questions,
            latency_sample=0,
            reports=reports,
            fresh=True,
            progress=True,
            **options,
        )


class KeptCall(Record, frozen=True, kw_only=True):
    """A recorded call without its prompt, identified by its key."""

    key: str
    stage: str
    question: str
    model: str
    recorded: CallResult


class CallFile(Cassette):
    """A cassette whose calls can be listed, and stored without their prompts."""

    def calls(self) -> list[KeptCall]:
        """Return all calls, sorted by key."""
        rows = self._rows(
            "SELECT key, stage, question, json_extract(request, '$.model'), recorded FROM calls ORDER BY key"
        )
        return [
            KeptCall(
                key=key,
                stage=stage,
                question=question,
                model=model,
                recorded=msgspec.json.decode(recorded, type=CallResult),
            )
            for key, stage, question, model, recorded in rows
        ]

    def restore(self, calls: Iterable[KeptCall]) -> None:
        """Store calls without their prompts. A replay finds calls by key, so it does not need the prompts."""
        for call in calls:
            recorded = msgspec.json.encode(call.recorded).decode()
            row = (call.key, call.stage, call.question, json.dumps({"model": call.model}), recorded)
            self._database.put([(*row, _checksum(row))])


def kept_calls(cassette: Path) -> list[KeptCall]:
    """Return the calls in a cassette, with each reply reduced to its labels."""
    with CallFile(cassette, readonly=True) as opened:
        return [msgspec.structs.replace(call, recorded=bare(call)) for call in opened.calls()]


def bare(call: KeptCall) -> CallResult:
    """Return a call's outcome, with the LLM's reply reduced to its labels.

    A replay reads only the labels in a reply, so a replay's results do not depend on the rest of the text.
    The times of the scripted LLMs are meaningless, so these times are replaced by 0.
    """
    recorded, text = call.recorded, ""
    if recorded.outcome == "ok":
        known = [f"s{number:0{width}d}" for width in (2, 3) for number in range(1, 10**width)]
        text = json.dumps({"ids": read_labels(recorded.reply.text, known, may_be_empty=True)})
    reply = LLMReply(
        text=text,
        usage=recorded.reply.usage,
        latency_ms=round(recorded.reply.latency_ms) if call.model == MODEL else 0,
        attempt=recorded.reply.attempt,
    )
    return CallResult(reply=reply, outcome=recorded.outcome)


def line(call: KeptCall) -> bytes:
    """Return the line of ``calls.jsonl`` for one call."""
    reply = call.recorded.reply
    labels = " ".join(json.loads(reply.text).get("ids", [])) if reply.text else ""
    spent = [reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cached_tokens]
    fields = [call.key, call.model, call.question, call.stage, call.recorded.outcome, labels]
    return msgspec.json.encode([*fields, *spent, reply.latency_ms, reply.attempt])


def read_call(text: bytes) -> KeptCall:
    """Parse one line of ``calls.jsonl``, and return its call."""
    key, model, question, stage, outcome, labels, prompt, completion, cached, ms, attempt = json.loads(text)
    usage = Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached, reported=True)
    said = json.dumps({"ids": labels.split()}) if outcome == "ok" else ""
    reply = LLMReply(text=said, usage=usage, latency_ms=ms, attempt=attempt)
    recorded = CallResult(reply=reply, outcome=outcome)
    return KeptCall(key=key, model=model, question=question, stage=stage, recorded=recorded)


def restored(folder: Path, *, model: bool) -> Path:
    """Create a cassette from ``calls.jsonl``."""
    path = folder / ("model.sqlite" if model else "scripted.sqlite")
    calls = [read_call(text) for text in CALLS.read_bytes().splitlines()]
    with CallFile(path) as cassette:
        cassette.restore(call for call in calls if (call.model == MODEL) is model)
    return path


def figures(made: Run) -> dict[str, Any]:
    """Return the numbers that the results page shows for a run, and the digests of its inputs and rows."""
    columns = ("strict_hit@1", "strict_hit@5", "relaxed_hit@1", "relaxed_hit@5", "strict_MRR@5")
    rows = [
        {
            "predictor": row.predictor,
            "llm": row.llm,
            "questions": row.questions,
            **{name: row.rates.get(name) for name in columns},
            "calls": round(row.llm_calls_per_query, 3),
            "tokens": round(row.llm_tokens_per_query, 1),
            "failed_calls": round(row.llm_failed_calls_per_query * row.questions),
            "fallbacks": row.fallbacks,
        }
        for row in made.summary_rows
    ]
    return {
        "questions_digest": made.record.questions_digest,
        "corpus_digest": made.record.corpus_digest,
        "rows": digest_file(made.directory / "rows.jsonl"),
        "predictors": rows,
    }


def replayed(data_dir: Path, questions: Path, folder: Path) -> dict[str, Run]:
    """Replay each recorded run from ``calls.jsonl``, without an LLM server."""
    models = {read_call(text).model for text in CALLS.read_bytes().splitlines()}
    made = {}
    for name in ("scripted", "model") if MODEL in models else ("scripted",):
        cassette = restored(folder, model=name == "model")
        made[name] = run(
            data_dir, questions, folder / name, cassette, url=NOWHERE, how="replay", model=name == "model"
        )
    return made


def recorded_model(data_dir: Path, questions: Path, folder: Path, base_url: str) -> list[KeptCall]:
    """Run the real model on the questions, and return the calls.

    A call that is already in the cassette ``model.sqlite`` is not repeated.
    """
    cassette = folder / "model.sqlite"
    run(data_dir, questions, folder / "recorded", cassette, url=base_url, how="record", model=True)
    return kept_calls(cassette)


def recorded_scripts(data_dir: Path, questions: Path, folder: Path) -> list[KeptCall]:
    """Return the calls to the scripted LLMs. Raises ``RuntimeError`` if a call failed."""
    cassette = folder / "scripted.sqlite"
    cassette.unlink(missing_ok=True)
    with Workspace.open(data_dir) as workspace, ScriptedLLM(script(workspace, questions)) as server:
        server.models = ARMS
        url = server.base_url
        made = run(data_dir, questions, folder / "recorded", cassette, url=url, how="record", model=False)
    if failed := [call for call in made.ledger if call.outcome != "ok"]:
        raise RuntimeError(f"{len(failed)} scripted calls failed, the first call with {failed[0].outcome!r}")
    return kept_calls(cassette)


def write_calls(calls: Sequence[KeptCall]) -> None:
    """Write ``calls`` to ``calls.jsonl``, replacing all stored calls to the same models."""
    models = {call.model for call in calls}
    before = [read_call(text) for text in CALLS.read_bytes().splitlines()] if CALLS.exists() else []
    kept = [*calls, *(call for call in before if call.model not in models)]
    KEPT.mkdir(exist_ok=True)
    CALLS.write_bytes(b"".join(line(call) + b"\n" for call in sorted(kept, key=lambda call: call.key)))


def write_page(data_dir: Path, questions: Path) -> None:
    """Replay the recorded calls, and write ``figures.json``, the plots and the page."""
    with tempfile.TemporaryDirectory() as scratch:
        made = replayed(data_dir, questions, Path(scratch))
        found = {name: figures(each) for name, each in made.items()}
        compared = {each.candidate: difference(each) for each in made["scripted"].judgment.comparisons}
        for name, each in made.items():
            drawn = standalone(draw(rates_plot(each).spec))
            (KEPT / f"{name}-rates.svg").write_text(drawn, encoding="utf-8")
    FIGURES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(found, compared), encoding="utf-8")


def difference(found: Comparison) -> str:
    """Return the verdict, the difference and its interval, in points."""
    text = f"{found.verdict}: {100 * found.difference:+.1f}"
    if found.ci_low is not None and found.ci_high is not None:
        text += f" ({100 * found.ci_low:+.1f} to {100 * found.ci_high:+.1f})"
    return text.replace("-", "−")


def table(rows: Sequence[dict[str, Any]], compared: dict[str, str]) -> str:
    """Return a Markdown table of a run's results, with one row per predictor.

    ``compared`` has the text of each predictor's last cell.
    """
    lines = [
        "| predictor | LLM | strict @1 / @5 | relaxed @1 / @5 | strict MRR@5 | calls | tokens | fallbacks |",
        "| --- | --- | --- | --- | --- | ---: | ---: | ---: |",
    ]
    if compared:
        lines = [f"{lines[0]} strict @1 vs `hybrid` |", f"{lines[1]} --- |"]
    for row in rows:
        strict = f"{100 * row['strict_hit@1']:.1f} / {100 * row['strict_hit@5']:.1f}"
        relaxed = f"{100 * row['relaxed_hit@1']:.1f} / {100 * row['relaxed_hit@5']:.1f}"
        spent = f"{row['calls']:.1f} | {row['tokens']:,.0f} | {row['fallbacks']}"
        mrr = f"{100 * row['strict_MRR@5']:.1f}" if row["strict_MRR@5"] is not None else "-"
        lines.append(f"| {row['predictor']} | {row['llm']} | {strict} | {relaxed} | {mrr} | {spent} |")
        if compared:
            lines[-1] += f" {compared.get(row['predictor'], '')} |"
    return "\n".join(lines)


def page(found: dict[str, Any], compared: dict[str, str]) -> str:
    """Return the results page as Markdown.

    ``found`` maps each run's name to its results (from :func:`figures`). ``compared`` has the comparison of
    each scripted predictor with the baseline, which a replay does not check.
    """
    template = (Path(__file__).with_name("llm_abc_page.md")).read_text(encoding="utf-8")
    values = {}
    for name in ("scripted", "model"):
        each = found.get(name, {"predictors": [], "rows": ""})
        values[f"{name}_table"] = table(each["predictors"], compared if name == "scripted" else {})
        values[f"{name}_rows"] = each["rows"][:16]
    asked = found.get("model", {"predictors": []})["predictors"]
    values["model_failed"] = str(sum(row["failed_calls"] for row in asked))
    values["model_calls"] = f"{sum(row['calls'] * row['questions'] for row in asked):,.0f}"
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template


def differences(data_dir: Path, questions: Path) -> list[str]:
    """Replay the recorded calls, and describe each result that differs from ``figures.json``."""
    known = json.loads(FIGURES.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        found = {name: figures(each) for name, each in replayed(data_dir, questions, Path(scratch)).items()}
    return [
        f"{name}: {key} is {found.get(name, {}).get(key)}, figures.json has {value}"
        for name, each in known.items()
        for key, value in each.items()
        if found.get(name, {}).get(key) != value
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=["record", "replay"])
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument(
        "--base-url", default="", help=f"server of {MODEL}; default: replay its recorded calls"
    )
    parser.add_argument("--only", nargs="+", choices=["scripted", "model"], default=["scripted", "model"])
    parser.add_argument(
        "--cassettes", type=Path, help="folder for the cassettes; default: a temporary folder"
    )
    options = parser.parse_args()
    if options.mode == "replay":
        try:
            found = differences(options.data_dir, options.questions)
        except ReplayError as error:
            found = [error.message]
        print("\n".join(found) or "every figure is reproduced")
        return 1 if found else 0
    with ExitStack() as opened:
        folder = options.cassettes or Path(opened.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        if "scripted" in options.only:
            write_calls(recorded_scripts(options.data_dir, options.questions, folder))
        if "model" in options.only and options.base_url:
            write_calls(recorded_model(options.data_dir, options.questions, folder, options.base_url))
        write_page(options.data_dir, options.questions)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
