"""Document 003, "Hybrid Retrieval Plan (Vector + BM25 + Tree)": a test per statement that needs no LLM.

What the document says of the LLM is tested in ``test_document_003_llm.py``.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.commands import NO_LLM, benchmark, invoke, json_lines, make_project, table, write_lines
from support.http_server import asking, post, running
from support.worlds import PAGES, make_index, write_pages

from branchrank.cli.main import main
from branchrank.embedders.prefixes import conventional_prefixes
from branchrank.index import Index, open_index
from branchrank.index.workspace_folder import WorkspaceFolder, configure
from branchrank.ranking.evidence import evidence
from branchrank.ranking.fusion import rrf
from branchrank.records import BREADCRUMB_SEPARATOR, Chunk, Scored
from branchrank.serve.access import Access
from branchrank.serve.http import application
from branchrank.serve.service import Service, offer
from branchrank.serve.workers import Workers
from branchrank.settings import HybridSettings, IndexSettings, LocalSettings, Resolved, resolve
from branchrank.stores.bm25 import Bm25Index
from branchrank.systems.builtin import builtin_systems, hybrid, local, pageindex
from branchrank.systems.engine import Engine

QUERY = "which temperature for green tea"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("document-003"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Index, Resolved]]:
    index, settings = make_index(
        tmp_path_factory.mktemp("world"), hybrid__no_llm=True, pageindex__no_llm=True
    )
    with index:
        yield index, settings


@pytest.fixture(scope="module")
def made(project: Path) -> Path:
    words = (
        "--predictor",
        "all",
        *NO_LLM,
        "--sample-size",
        6,
        "--sample-seed",
        42,
        "--latency-sample",
        4,
    )
    return benchmark(project, *words)


def stages(world: tuple[Index, Resolved], name: str, query: str = QUERY, **flags: object) -> dict[str, Any]:
    """Every stage's list of a query."""
    index, settings = world
    if flags:
        given = {f"{name}.{key}": value for key, value in flags.items()}
        settings = resolve(environment={}, flags={"hybrid.no_llm": True, "pageindex.no_llm": True, **given})
    [system] = builtin_systems((name,), settings)
    return {stage.stage: stage for stage in Engine(index).retrieve(system, query, 5).trace}


def search(project: Path, *words: object) -> list[dict[str, Any]]:
    result = invoke(words[0], "--data-dir", project / "data", "--json", *words[1:])
    assert result.exit_code == 0, result.output
    hits: list[dict[str, Any]] = json.loads(result.stdout)["hits"]
    return hits


class TestUpdatedRollout:
    def test_1_bm25_by_bm25s_in_both_pipelines(self, project: Path, world: tuple[Index, Resolved]) -> None:
        assert Bm25Index.__module__ == "branchrank.stores.bm25"
        assert "bm25s" in sys.modules
        assert any("bm25(chunks)" in hit["branches"] for hit in search(project, "retrieve", QUERY))
        assert any("bm25(nodes)" in hit["branches"] for hit in search(project, "hybrid", "--no-llm", QUERY))
        assert "bm25(chunks)" in stages(world, "local"), "the benchmark's local predictor is the same system"

    def test_2_hybrid_has_a_global_bm25_branch_in_place_of_lexical_overlap(
        self, world: tuple[Index, Resolved]
    ) -> None:
        """It ranks every node of the corpus, not only those near the shortlist."""
        index, _ = world
        found = stages(world, "hybrid", "stains", vector_top_n=1)
        assert list(found["bm25(nodes)"].keys) == [s.key for s in index.bm25_nodes.search("stains", 80)]
        outside = set(found["bm25(nodes)"].keys) - set(found["expansion"].keys)
        assert outside <= set(found["fusion"].keys)

    @pytest.mark.parametrize("name", ["local", "hybrid"])
    def test_3_dense_and_bm25_are_fused_by_rrf_with_k_60(
        self, world: tuple[Index, Resolved], name: str
    ) -> None:
        found = stages(world, name)
        dense = found["dense(chunks)" if name == "local" else "expansion"].keys
        lexical = found["bm25(chunks)" if name == "local" else "bm25(nodes)"].keys
        expected: dict[str, float] = {}
        for branch in (dense, lexical):
            for rank, key in enumerate(branch, start=1):
                expected[key] = expected.get(key, 0.0) + 1 / (60 + rank)
        order = sorted(expected, key=lambda key: (-expected[key], key))
        assert list(found["fusion"].keys) == order
        assert found["fusion"].scores == pytest.approx([expected[key] for key in order])

    def test_4_the_pageindex_only_retriever_gets_no_bm25_branch(self, world: tuple[Index, Resolved]) -> None:
        system = pageindex(world[1])
        assert [branch.kind for branch in system.branches] == ["tree"]
        assert system.fuse.method == "rrf"
        assert "tree" in stages(world, "pageindex")

    @pytest.mark.parametrize(
        "words",
        [
            ("retrieve", QUERY),
            ("hybrid", "--no-llm", QUERY),
            ("benchmark", "--mode", "both", "--predictor", "local"),
            ("benchmark", "--mode", "both", "--predictor", "hybrid", "--hybrid-no-llm"),
        ],
        ids=" ".join,
    )
    def test_5_commands_run_correctly(self, project: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
        """Word for word over the bundled sample: ``tests/cli/test_sample.py``."""
        sample = ("--sample-size", 5, "--sample-seed", 42, "--reports", tmp_path, "--latency-sample", 0)
        more = sample if words[0] == "benchmark" else ()
        result = invoke(*words, "--data-dir", project / "data", *more)
        assert result.exit_code == 0, result.output
        assert result.stdout


class TestNotes:
    def test_small_sample_sizes_for_speed(self, project: Path, tmp_path: Path) -> None:
        made = benchmark(project, "--predictor", "local", "--sample-size", 3, reports=tmp_path)
        assert table(made / "summary.csv")[0]["questions"] == "3"

    @pytest.mark.parametrize("part", ["local", "hybrid"])
    def test_bm25_and_rrf_tuning_flags(self, project: Path, tmp_path: Path, part: str) -> None:
        flags: dict[str, Any] = {
            "vector-top-n": 7,
            "bm25-top-n": 9,
            "rrf-k": 3,
            "bm25-weight": 0.5,
            "vector-weight": 2.0,
        }
        words = [word for name, value in flags.items() for word in (f"--{part}-{name}", value)]
        words += ["--bm25-k1", 1.5, "--bm25-b", 0.75]
        made = benchmark(project, "--predictor", part, *NO_LLM, *words, reports=tmp_path)
        run = json.loads((made / "run.json").read_text())
        dense, bm25 = run["predictors"][0]["system"]["branches"]
        assert (dense["top_n"], dense["weight"], bm25["top_n"], bm25["weight"]) == (7, 2.0, 9, 0.5)
        assert run["predictors"][0]["system"]["fuse"]["k"] == 3
        assert (run["settings"]["bm25"]["k1"], run["settings"]["bm25"]["b"]) == (1.5, 0.75)
        for row in json_lines(made / "rows.jsonl"):
            lists = {stage["stage"]: stage["keys"] for stage in row["trace"]}
            assert len(lists["dense(chunks)"]) <= 7


class TestWhyHybrid:
    def test_candidates_are_narrowed_before_the_llm_reasons(self, tmp_path: Path) -> None:
        pages = {
            f"p{n}.md": "".join(f"# T{n}\n" * (s == 0) + f"\n## S{s}\n\ntea {n} {s}\n" for s in range(6))
            for n in range(12)
        }
        index, settings = make_index(tmp_path, pages, hybrid__no_llm=True, hybrid__candidate_cap=20)
        found = {s.stage: s for s in Engine(index).retrieve(hybrid(settings), "tea", 5).trace}
        assert len(index.tree.sections) > 80
        assert len(found["fusion"].keys) > 20
        assert found["cap"].keys == found["fusion"].keys[:20]
        index.close()


class TestStageAVectorShortlist:
    def test_1_the_query_is_embedded_by_coderankembed(self) -> None:
        """With its query prefix; a small model of its architecture is embedded in ``tests/stores``."""
        assert IndexSettings().embedder == "nomic-ai/CodeRankEmbed"
        prefixes = conventional_prefixes("nomic-ai/CodeRankEmbed")
        assert prefixes.query == "Represent this query for searching relevant code: "
        assert prefixes.document == ""

    @pytest.mark.parametrize("n", [20, 40, 80])
    def test_2_the_top_n_chunk_hits_come_from_chroma(self, tmp_path: Path, n: int) -> None:
        pages = {f"p{number:03d}.md": f"# P{number}\n\ntea number {number}\n" for number in range(90)}
        index, settings = make_index(
            tmp_path, pages, index__vector_store="chroma", hybrid__vector_top_n=n, hybrid__no_llm=True
        )
        with index:
            assert index.vectors.name == "chroma"
            found = {s.stage: s for s in Engine(index).retrieve(hybrid(settings), "tea number 7", 5).trace}
            exact = index.exact_vectors.search(index.embedder.embed_query("tea number 7"), n)
        assert len(found["dense(chunks)"].keys) == n
        assert len(set(found["dense(chunks)"].keys) & {entry.key for entry in exact}) >= 0.9 * n

    def test_3_chunk_hits_become_nodes_by_source_and_line_overlap(self, tmp_path: Path) -> None:
        """Chunks of another origin, whose bounds are not those of sections."""
        write_pages(tmp_path / "docs")
        chunks = [
            {"id": "x1", "source": "guide/brewing.md", "line_start": 6, "line_end": 12, "text": "green tea"},
            {"id": "x2", "source": "guide/cleaning.md", "line_start": 1, "line_end": 3, "text": "vinegar"},
            {"id": "x3", "source": "index.rst", "line_start": 1, "line_end": 4, "text": "teapot"},
            {"id": "x4", "source": "install.rst", "line_start": 1, "line_end": 15, "text": "setup"},
            {"id": "x5", "source": "reference/api.md", "line_start": 1, "line_end": 9, "text": "api"},
        ]
        own = write_lines(tmp_path / "foreign.jsonl", chunks)
        configure(
            tmp_path / "data",
            corpus=tmp_path / "docs",
            chunks=own,
            settings={"index.embedder": "fake:64", "index.vector_store": "exact"},
        )
        assert search(tmp_path, "retrieve", "green tea")[0]["id"] == "x1"
        with open_index(WorkspaceFolder.open(tmp_path / "data", environment={})) as index:
            engine = Engine(index)
            assert engine.sources.nodes_of("x1") == (
                "guide/brewing.md#choosing-a-temperature",
                "guide/brewing.md#steeping-time",
            )
            assert engine.sources.nodes_of("x2") == ("guide/cleaning.md",)

    def test_4_evidence_of_a_node_from_best_distance_hit_count_and_rank(self) -> None:
        nodes = {"a1": ["a"], "a2": ["a"], "b1": ["b"], "c1": ["c"]}

        def of(*shortlist: tuple[str, float]) -> dict[str, float]:
            return dict(evidence([Scored(*entry) for entry in shortlist], nodes.__getitem__))

        base = of(("a1", 0.8), ("b1", 0.7))
        assert of(("a1", 0.9), ("b1", 0.7))["a"] > base["a"], "a smaller distance"
        assert of(("a1", 0.8), ("a2", 0.7))["a"] > base["a"], "more hits"
        assert of(("c1", 0.8), ("a1", 0.8))["a"] < base["a"], "a worse rank"
        assert base["a"] == pytest.approx(0.6 * 0.8 + 0.3 * 1 + 0.1 * 0)
        assert base["b"] == pytest.approx(0.6 * 0.7 + 0.3 * 11 / 12)

    def test_output_candidate_nodes_and_candidate_files(self, world: tuple[Index, Resolved]) -> None:
        index, _ = world
        found = stages(world, "hybrid")
        mapped = found["mapping"]
        assert mapped.unit == "node"
        assert set(mapped.keys) <= set(index.tree.nodes)
        assert list(mapped.scores) == sorted(mapped.scores, reverse=True)


TREE = {
    "a.md": "# A\n\ntop\n\n## B\n\nzebra stripes\n\n### C\n\nchild\n\n"
    "## D\n\nnext\n\n## E\n\nlast\n\n## F\n\nfar\n",
    "b.md": "# Other\n\n## Deep\n\nzebra herd\n",
}


class TestStageBTreeExpansion:
    def reached(self, tmp_path: Path, **flags: object) -> list[str]:
        """What is reached from a shortlist of one chunk."""
        settings = {"vector_top_n": 1, "file_roots": 0, "no_llm": True, **flags}
        named = {f"hybrid__{key}": value for key, value in settings.items()}
        index, resolved = make_index(tmp_path, TREE, **named)
        with index:
            found = Engine(index).retrieve(hybrid(resolved), "B zebra stripes", 5).trace
        lists = {stage.stage: stage.keys for stage in found}
        assert lists["mapping"] == ("a.md#b",)
        return list(lists["expansion"])

    def test_parent(self, tmp_path: Path) -> None:
        assert "a.md" in self.reached(tmp_path)

    def test_children(self, tmp_path: Path) -> None:
        assert "a.md#b/c" in self.reached(tmp_path)

    @pytest.mark.parametrize(("cap", "expected"), [(0, set()), (1, {"a.md#d"}), (2, {"a.md#d", "a.md#e"})])
    def test_optional_siblings_capped_per_node(self, tmp_path: Path, cap: int, expected: set[str]) -> None:
        found = set(self.reached(tmp_path, siblings=cap))
        assert found & {"a.md#d", "a.md#e", "a.md#f"} == expected

    def test_a_small_number_of_file_roots_inferred_from_stage_a(self, tmp_path: Path) -> None:
        assert "a.md" not in self.reached(tmp_path / "none", neighbor_depth=0)
        assert self.reached(tmp_path / "one", neighbor_depth=0, file_roots=1) == ["a.md#b", "a.md"]
        assert HybridSettings().file_roots == 5

    def test_the_seed_stays_before_its_neighbours(self, tmp_path: Path) -> None:
        assert self.reached(tmp_path)[0] == "a.md#b"

    def test_output_a_compact_pool_of_20_to_50_nodes(self, project: Path) -> None:
        for cap, code in ((19, 2), (20, 0), (50, 0), (51, 2)):
            words = ("hybrid", "--no-llm", QUERY, "--hybrid-candidate-cap", cap)
            result = invoke(*words, "--data-dir", project / "data")
            assert result.exit_code == code
            assert code == 0 or "20 to 50" in result.stderr


class TestIntegrationPlan:
    def test_1_hybrid_does_shortlist_mapping_expansion_and_ranking(
        self, world: tuple[Index, Resolved]
    ) -> None:
        assert list(stages(world, "hybrid")) == [
            "dense(chunks)",
            "mapping",
            "expansion",
            "bm25(nodes)",
            "fusion",
            "cap",
            "passages",
        ]

    def test_1_current_retrievers_are_unchanged_by_it(self, world: tuple[Index, Resolved]) -> None:
        index, _ = world
        tuned = resolve(
            environment={}, flags={"hybrid.rrf_k": 1, "hybrid.no_llm": True, "pageindex.no_llm": True}
        )
        plain = resolve(environment={}, flags={"hybrid.no_llm": True, "pageindex.no_llm": True})
        for make in (local, pageindex):
            assert make(tuned) == make(plain)
            assert Engine(index).retrieve(make(tuned), QUERY, 5).hits

    def test_2_the_benchmark_has_a_predictor_hybrid(self, project: Path, tmp_path: Path) -> None:
        made = benchmark(project, "--predictor", "hybrid", "--hybrid-no-llm", reports=tmp_path)
        assert table(made / "summary.csv")[0]["predictor"] == "hybrid"

    def test_2_flags(self) -> None:
        command = main.get_command(None, "benchmark")  # type: ignore[arg-type]
        assert command is not None
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert flags >= {
            "--predictor",
            "--hybrid-base-url",
            "--hybrid-model",
            "--hybrid-vector-top-n",
            "--hybrid-candidate-cap",
            "--hybrid-neighbor-depth",
            "--hybrid-no-llm",
        }

    def test_3_post_retrieve_answers_in_one_format_for_every_predictor(
        self, world: tuple[Index, Resolved]
    ) -> None:
        index, settings = world
        with ExitStack() as opened:
            workers = Workers(1, 8)
            opened.callback(workers.close)
            service = Service(index, offer(builtin_systems(("all",), settings)), further={})
            server = opened.enter_context(running(application(service, workers, Access())))
            shapes = set()
            for name in ("local", "pageindex", "hybrid"):
                status, _, body = server.send(post(asking(QUERY, top_k=2, predictor=name)))
                assert status == 200, body
                answer = json.loads(body)
                assert answer["predictor"] == name
                assert 1 <= len(answer["hits"]) <= 2
                shapes |= {(tuple(sorted(answer)), tuple(sorted(hit))) for hit in answer["hits"]}
        assert len(shapes) == 1


class TestDataAndArtifactRequirements:
    @pytest.mark.parametrize("name", ["chunks.jsonl", "chroma", "pageindex/nodes.jsonl"])
    def test_files_have_their_names(self, tmp_path: Path, name: str) -> None:
        index, _ = make_index(tmp_path, index__vector_store="chroma")
        index.close()
        assert (tmp_path / "data" / name).exists()

    def test_chunks_and_nodes_are_read_back_as_they_were_used(self, project: Path) -> None:
        chunks = {line["id"]: line for line in json_lines(project / "data" / "chunks.jsonl")}
        nodes = {line["id"]: line for line in json_lines(project / "data" / "pageindex" / "nodes.jsonl")}
        for hit in search(project, "retrieve", QUERY):
            assert hit["text"] == chunks[hit["id"]]["text"]
            assert hit["node_id"] in nodes
        assert set(nodes["guide/brewing.md"]) >= {
            "id",
            "parent_id",
            "children",
            "title",
            "summary",
            "text",
            "source",
            "breadcrumb",
            "line_start",
            "line_end",
            "own_line_end",
        }

    def test_existing_chunks_and_nodes_are_reused(self, tmp_path: Path) -> None:
        """Files of an earlier system: its own ids, and no node ids in the chunks."""
        source = make_project(tmp_path / "earlier")
        kept = [
            {key: line[key] for key in ("source", "line_start", "line_end", "text")} | {"id": f"c{number}"}
            for number, line in enumerate(json_lines(source / "data" / "chunks.jsonl"))
        ]
        folder = tmp_path / "later"
        write_pages(folder / "docs")
        nodes = folder / "data" / "old-nodes.jsonl"
        nodes.parent.mkdir(parents=True)
        nodes.write_text((source / "data" / "pageindex" / "nodes.jsonl").read_text())
        configure(
            folder / "data",
            corpus=folder / "docs",
            chunks=write_lines(folder / "data" / "old-chunks.jsonl", kept),
            nodes=nodes,
            settings={"index.embedder": "fake:64", "index.vector_store": "exact"},
        )
        hit = search(folder, "hybrid", "--no-llm", "baking soda removes stains")[0]
        assert hit["id"] in {chunk["id"] for chunk in kept}
        assert hit["source"] == "guide/cleaning.md"

    def test_optional_cache_below_hybrid_cache(self, project: Path) -> None:
        """Embeddings without an LLM; decisions of a reranker beside them in ``test_document_003_llm.py``."""
        assert list((project / "data" / "hybrid" / "cache").iterdir())


class TestEvaluationPlan:
    def test_a_b_c_on_the_same_question_sample_and_seed(self, made: Path) -> None:
        rows = json_lines(made / "rows.jsonl")
        asked = {
            name: [row["question_id"] for row in rows if row["predictor"] == name]
            for name in ("local", "pageindex", "hybrid")
        }
        assert len(asked["local"]) == 6
        assert asked["local"] == asked["pageindex"] == asked["hybrid"]

    @pytest.mark.parametrize("column", ["strict_hit@1", "strict_hit@5", "relaxed_hit@1", "relaxed_hit@5"])
    def test_report_strict_and_relaxed_hits(self, made: Path, column: str) -> None:
        for row in table(made / "summary.csv"):
            assert 0 <= float(row[column]) <= 1

    def test_report_latency_per_query_p50_and_p95(self, made: Path) -> None:
        for row in table(made / "summary.csv"):
            assert 0 < float(row["latency_p50_ms"]) <= float(row["latency_p95_ms"])

    @pytest.mark.parametrize("column", ["llm_calls_per_query", "llm_tokens_per_query"])
    def test_report_llm_calls_and_tokens_per_query(self, made: Path, column: str) -> None:
        """Zero since the ledger is empty; with an LLM: ``test_document_003_llm.py``."""
        assert {row[column] for row in table(made / "summary.csv")} == {"0"}
        assert table(made / "llm_calls.csv") == []

    def test_the_report_is_csv_and_markdown(self, made: Path) -> None:
        report = (made / "report.md").read_text(encoding="utf-8")
        for name in ("local", "pageindex", "hybrid"):
            assert name in report
        assert (made / "questions.csv").stat().st_size > 0


class TestSuggestedDefaults:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("vector_top_n", 40),
            ("candidate_cap", 30),
            ("neighbor_depth", 1),
            ("siblings", 2),
            ("bm25_top_n", 80),
            ("rrf_k", 60),
        ],
    )
    def test_hybrid(self, name: str, value: int) -> None:
        assert getattr(HybridSettings(), name) == value

    @pytest.mark.parametrize(("name", "value"), [("vector_top_n", 40), ("bm25_top_n", 80), ("rrf_k", 60)])
    def test_local(self, name: str, value: int) -> None:
        assert getattr(LocalSettings(), name) == value

    @pytest.mark.parametrize("verb", [("retrieve",), ("hybrid", "--no-llm")], ids=" ".join)
    def test_final_top_k_is_5(self, project: Path, verb: tuple[str, ...]) -> None:
        assert len(search(project, *verb, "tea")) == 5


class TestRisksAndMitigations:
    def test_a_chunk_that_meets_no_node_speaks_for_its_file(self, world: tuple[Index, Resolved]) -> None:
        index, _ = world
        engine = Engine(index)
        stray = Chunk(
            id="stray",
            node_id="",
            source="guide/brewing.md",
            line_start=500,
            line_end=510,
            breadcrumb=BREADCRUMB_SEPARATOR.join(["a", "b"]),
            text="beyond every section",
        )
        engine.sources.index = type("", (), {"chunks": {"stray": stray}, "tree": index.tree})()
        assert engine.sources.nodes_of("stray") == ("guide/brewing.md",)

    def test_the_cap_is_hard(self, world: tuple[Index, Resolved]) -> None:
        found = stages(world, "hybrid", "tea", candidate_cap=20)
        assert len(found["cap"].keys) == min(20, len(found["fusion"].keys))

    def test_the_fallback_score_is_there_for_every_candidate(self, world: tuple[Index, Resolved]) -> None:
        found = stages(world, "hybrid")
        assert all(math.isfinite(score) and score > 0 for score in found["cap"].scores)
        assert list(found["cap"].scores) == sorted(found["cap"].scores, reverse=True)


class TestRolloutPhases:
    def test_3_a_benchmark_of_100_questions(self, project: Path, tmp_path: Path) -> None:
        pages = [{"source_file": source, "gold_level": "file"} for source in PAGES]
        lines = [{"id": f"q{n:03d}", "question": f"tea {n}", **pages[n % len(pages)]} for n in range(130)]
        path = write_lines(tmp_path / "questions.jsonl", lines)
        words = ("--predictor", "all", *NO_LLM, "--questions", path, "--sample-size", 100)
        made = benchmark(project, *words, "--bootstrap", 100, reports=tmp_path / "reports")
        rows = table(made / "summary.csv")
        assert [row["questions"] for row in rows] == ["100"] * 3

    def test_4_candidate_limits_and_neighbour_policy_are_tuned_by_a_sweep(
        self, project: Path, tmp_path: Path
    ) -> None:
        experiment = tmp_path / "tune.toml"
        experiment.write_text(
            f'name = "tune"\ndata_dir = "{project / "data"}"\n'
            "[benchmark]\nlatency_sample = 0\nbootstrap = 100\n"
            '[systems.hybrid]\nrerank.method = "none"\n'
            "sweep = { candidate_cap = [20, 50], neighbor_depth = [0, 1] }\n"
        )
        result = invoke("run", experiment, "--reports", tmp_path / "reports")
        assert result.exit_code == 0, result.output
        [made] = (tmp_path / "reports").iterdir()
        assert [row["predictor"] for row in table(made / "summary.csv")] == [
            f"hybrid[candidate_cap={cap}, neighbor_depth={depth}]" for cap in (20, 50) for depth in (0, 1)
        ]


def test_rrf_is_the_published_formula() -> None:
    """Cormack, Clarke and Büttcher, 2009: the sum of 1 / (k + rank)."""
    fused = dict(rrf({"a": [Scored("x", 9.0), Scored("y", 1.0)], "b": [Scored("y", 0.3)]}))
    assert fused == {"x": pytest.approx(1 / 61), "y": pytest.approx(1 / 62 + 1 / 61)}
