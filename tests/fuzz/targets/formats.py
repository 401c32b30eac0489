"""Loaders of text formats: what is read and written again is read alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from support.commands import QUESTIONS

from branchrank.core.io.files import digest_of, write_jsonl
from branchrank.documents.ir_collections import read_entries
from branchrank.documents.tree_build import load_nodes
from branchrank.documents.tree_nodes import check_nodes
from branchrank.index.adopted_files import given_chunks, given_nodes, read_found
from branchrank.index.adoption import Adoption
from branchrank.index.manifest import BuildReport, Manifest, read_record, write_record
from branchrank.index.workspace_folder import WorkspaceFolder, read_config, update_config
from branchrank.questions.qrels import beir_questions, read_qrels
from branchrank.questions.question_files import load_questions, write_questions
from branchrank.runs import directory as names
from branchrank.runs.bench.experiment import plan_from_experiment
from branchrank.runs.bench.record import Seal, read_seal
from branchrank.runs.directory import own_digest, read_run, write_run
from branchrank.runs.exchange import read_trec, score_trec
from branchrank.runs.rows import RowLog, packed, read_rows, write_lines
from branchrank.runs.run_data import RunData
from branchrank.runs.timings import read_timings, write_timings
from branchrank.search.llm.ledger import read_prices
from fuzz.target import Target, require, seeds
from fuzz.world import corpus, index, put, run_directory, scratch

EXPERIMENT = b"""name = "fusion"
data_dir = "nowhere"
repeats = 2

[benchmark]
primary = "strict_hit@1"
baseline = "bm25"
top_k = 10

[systems.bm25]

[systems.mine]
branches = [{ kind = "bm25", unit = "chunk", top_n = 50 }, { kind = "dense", top_n = 50 }]
fuse = { method = "rrf", k = 60 }
index = "small"

[systems.swept]
from = "hybrid"
neighbor_depth = 0
rerank.method = "none"
sweep = { rrf_k = [10, 60], vector_weight = [0.5, 1] }

[indexes.small]
chunk_tokens = 64
"""
SETTINGS = b"""# a comment
corpus = "../docs"
exclude = ["draft/*"]
questions = "benchmark/questions.jsonl"

[index]
embedder = "fake:64"
chunk_tokens = 128

[bm25]
k1 = 1.2

[benchmark]
measures = ["nDCG@10", "hit@1"]
alpha = 0.05

[hybrid]
rrf_k = 60
no_llm = true
"""
PRICES = b"""date = 2026-01-02
currency = "USD"

[models.scripted]
prompt = 0.15
completion = 0.6
cached = 0.075
"""
TREC = b"q1 Q0 d1 1 9.5 tag\nq1 Q0 d2 2 9.5 tag\nq1 Q0 d3 3 -1e3 tag\nq2 Q0 d1 1 3 tag\n"
QRELS = b"q1 0 d1 1\nq1 0 d2 2\nq1 0 d4 0\nq2 0 d9 1\n"
BEIR_QRELS = b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t2\nq2\td1\t0\n"
BEIR_CORPUS = (
    b'{"_id": "d1", "title": "Tea", "text": "Green tea.\\nBlack tea.", "metadata": {}}\n'
    b'{"_id": "d2", "title": "", "text": "Kettle"}\n'
)
BEIR_QUERIES = b'{"_id": "q1", "text": "which tea", "metadata": {}}\n{"_id": "q2", "text": "kettle"}\n'
MEASURES = ("nDCG@10", "P@5", "RR", "AP", "R@100")


def round_trip(
    name: str, read: Callable[[Path], Any], write: Callable[[Path, Any], object], *, rounds: bool = False
) -> Callable[[bytes], None]:
    """A function that reads a file, writes what it read, and expects to read the same again.

    Where writing ``rounds``, what is written must be the same again.
    """

    def run(content: bytes) -> None:
        first = read(put(name, content))
        again = scratch() / f"again-{name}"
        write(again, first)
        second, written = read(again), again.read_bytes()
        require(rounds or first == second, f"{first!r:.500} became {second!r:.500}")
        write(again, second)
        require(again.read_bytes() == written, f"{written!r:.500} became {again.read_bytes()!r:.500}")

    return run


def run_json(content: bytes) -> None:
    """``run.json`` with digests that fit, in a run that is otherwise whole: loaded, written, loaded."""
    folder = scratch() / "run-json"
    if not folder.exists():
        folder.mkdir()
        for name in (names.ROWS, *names.MEASURED):
            (folder / name).write_bytes((run_directory() / name).read_bytes())
    (folder / names.RUN_JSON).write_bytes(content)
    record = read_run(folder)
    write_run(folder, record)
    require(read_run(folder) == record, "the record changed")
    own_digest((folder / names.RUN_JSON).read_bytes())
    RunData.load(folder)


def rows(content: bytes) -> None:
    """Rows of a finished run and of one that is resumed."""
    path = put("rows.jsonl", content)
    whole = read_rows(path)
    write_jsonl(path, whole)
    require(read_rows(path) == whole, "the rows changed")
    path.write_bytes(content)
    with RowLog(path) as log:
        log.rewrite(list(log.rows.values()))


def compressed_rows(content: bytes) -> None:
    """Compressed rows, and what a run that was cut short left of them."""
    path = put("rows.jsonl.zst", content)
    with RowLog(path) as log:
        kept = list(log.rows.values())
        log.rewrite(kept)
    require(read_rows(path) == kept, "the rows changed")
    read_rows(put("rows.jsonl.zst", content))


def _compressed() -> tuple[bytes, ...]:
    lines = (run_directory() / names.ROWS).read_bytes().splitlines(keepends=True)[:4]
    path = scratch() / "seed.jsonl.zst"
    write_lines(path, lines)
    return path.read_bytes(), b"".join(packed(path, line) for line in lines)


def whole_run(content: bytes) -> None:
    """A run whose rows were changed: every table that is computed from them has finite numbers."""
    folder = scratch() / "whole-run"
    if not folder.exists():
        folder.mkdir()
        for name in (names.RUN_JSON, names.ROWS, *names.MEASURED):
            (folder / name).write_bytes((run_directory() / name).read_bytes())
    (folder / names.ROWS).write_bytes(content)
    run = RunData.load(folder)
    for predictor in {row.predictor for row in run.rows}:
        for measure in run.standard:
            for value in run.scores.per_question(predictor, measure).values():
                require(math.isfinite(value), f"{measure.name} of {predictor} is {value}")


def settings(content: bytes) -> None:
    """A workspace's file: read, resolved, changed, read."""
    folder = scratch() / "settings"
    path = put("settings/branchrank.toml", content)
    config, tables = read_config(path)
    WorkspaceFolder.open(folder, environment={})
    update_config(path, {"corpus": "elsewhere", "index.chunk_tokens": 77})
    after, after_tables = read_config(path)
    wanted = msgspec.structs.replace(config, corpus="elsewhere")
    tables["index"] = {**tables.get("index", {}), "chunk_tokens": 77}
    require(after == wanted and repr(sorted_keys(after_tables)) == repr(sorted_keys(tables)), "a key changed")


def sorted_keys(value: Any) -> Any:
    """The same tables with their keys in order."""
    return {key: sorted_keys(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


def trec(content: bytes) -> None:
    """A TREC run, scored with qrels: measures are shares."""
    path = put("some.run", content)
    read_trec(path)
    _shares(path, put("qrels.txt", QRELS))


def qrels(content: bytes) -> None:
    """TREC qrels, used to score a run."""
    path = put("qrels.txt", content)
    read_qrels(path)
    _shares(put("some.run", TREC), path)


def _shares(run: Path, judged: Path) -> None:
    for scored in score_trec([run], judged, MEASURES):
        for measure, values in scored.by_query.items():
            for value in values.values():
                require(0 <= value <= 1 + 1e-9, f"{measure} is {value}")


def beir(changed: str) -> Callable[[bytes], None]:
    """A BEIR folder of which one file is the input."""
    whole = {"corpus.jsonl": BEIR_CORPUS, "queries.jsonl": BEIR_QUERIES, "qrels/test.tsv": BEIR_QRELS}

    def run(content: bytes) -> None:
        for name, written in (whole | {changed: content}).items():
            put(f"beir/{name}", written)
        entries = {entry.id for entry in read_entries(scratch() / "beir")}
        found = beir_questions(scratch() / "beir", "test", remove_query=True)
        for question in found.questions:
            require(bool(question.gold), f"{question.id} has no gold")
        require(bool(entries) or bool(found.notes), "gold without a corpus")

    return run


def nodes(content: bytes) -> None:
    """A tree of nodes, and the same as the user's own tree of a corpus."""
    path = put("nodes.jsonl", content)
    tree = load_nodes(path)
    require(not check_nodes(list(tree.nodes.values())), "a wrong tree was read")
    write_jsonl(scratch() / "again.jsonl", tree.nodes.values())
    require(load_nodes(scratch() / "again.jsonl").nodes == tree.nodes, "the tree changed")
    given_nodes(path, corpus())


def chunks(content: bytes) -> None:
    """The user's own chunks: inside documents of the corpus."""
    counts = {each.source: each.line_count for each in corpus().documents}
    for chunk in given_chunks(put("chunks.jsonl", content), corpus(), index().tree):
        require(
            1 <= chunk.line_start <= chunk.line_end <= counts[chunk.source], f"{chunk.id} leaves its file"
        )


def adopted_chunks(content: bytes) -> None:
    """Chunks of another program, before they are placed."""
    put("adopted/chunks.jsonl", content)
    found, _ = read_found(scratch() / "adopted", "", remedy="x")
    require(all(found), "an id is empty")


def _chunk_seeds() -> tuple[bytes, ...]:
    encoded = b"".join(msgspec.json.encode(chunk) + b"\n" for chunk in index().chunks.values())
    other = b'{"page_content": "Cache", "metadata": {"source": "cache.rst", "loc": {"from": 1}}, "id": 7}\n'
    return (encoded, other)


def _record(name: str, kind: type[Any]) -> Callable[[bytes], None]:
    return round_trip(name, lambda path: read_record(path, kind), write_record)


def _adoption() -> tuple[bytes, ...]:
    made = Adoption(
        folder="/x",
        corpus_digest="0" * 64,
        chunks=1,
        by_lines=1,
        anchored=0,
        unconfirmed=0,
        left_out=("c2: not in the corpus",),
        chunks_digest="0" * 64,
    )
    return (msgspec.json.encode(made),)


def _seal() -> tuple[bytes, ...]:
    parts: dict[str, Any] = {"--top-k": 5, "benchmark.alpha": 0.05, "--split": "test"}
    return (msgspec.json.encode(Seal(digest=digest_of(parts), parts=parts)),)


def _of_run(name: str, count: int | None = None) -> Callable[[], tuple[bytes, ...]]:
    """The first lines of a file of a run."""
    return lambda: (b"".join((run_directory() / name).read_bytes().splitlines(keepends=True)[:count]),)


def _of_index(name: str) -> Callable[[], tuple[bytes, ...]]:
    return lambda: ((index().directory / name).read_bytes(),)


def only(read: Callable[[Path], object], name: str) -> Callable[[bytes], None]:
    """A function that writes a file and reads it."""

    def run(content: bytes) -> None:
        read(put(name, content))

    return run


_QUESTIONS = b"".join(msgspec.json.encode(each) + b"\n" for each in QUESTIONS)

TARGETS = (
    Target("rows", rows, _of_run(names.ROWS, 6)),
    Target("compressed-rows", compressed_rows, _compressed, is_text=False),
    Target("run-with-rows", whole_run, _of_run(names.ROWS)),
    Target("run-json", run_json, _of_run(names.RUN_JSON)),
    Target(
        "timings",
        round_trip("timings.csv", read_timings, write_timings, rounds=True),
        _of_run(names.TIMINGS_CSV, 8),
    ),
    Target("questions", round_trip("questions.jsonl", load_questions, write_questions), seeds(_QUESTIONS)),
    Target("manifest", _record("manifest.json", Manifest), _of_index("manifest.json")),
    Target("build-report", _record("build.json", BuildReport), _of_index("build.json")),
    Target(
        "adoption",
        round_trip("adoption.json", lambda path: read_record(path, Adoption), write_record),
        _adoption,
    ),
    Target("nodes", nodes, _of_index("pageindex/nodes.jsonl")),
    Target("chunks", chunks, lambda: _chunk_seeds()[:1]),
    Target("adopted-chunks", adopted_chunks, _chunk_seeds),
    Target("settings", settings, seeds(SETTINGS)),
    Target("experiment", only(plan_from_experiment, "experiment.toml"), seeds(EXPERIMENT)),
    Target("prices", only(read_prices, "prices.toml"), seeds(PRICES)),
    Target("seal", only(read_seal, "seal.json"), _seal),
    Target("trec-run", trec, seeds(TREC)),
    Target("qrels", qrels, seeds(QRELS)),
    Target("beir-qrels", beir("qrels/test.tsv"), seeds(BEIR_QRELS)),
    Target("beir-corpus", beir("corpus.jsonl"), seeds(BEIR_CORPUS)),
    Target("beir-queries", beir("queries.jsonl"), seeds(BEIR_QUERIES)),
)
