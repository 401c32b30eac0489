"""Document 003, "Hybrid Retrieval Plan (Vector + BM25 + Tree)": a test per statement that needs no LLM.

What the document says of the LLM is tested in ``test_document_003_llm.py``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import bm25s
import pytest
from support.chroma_answers import drop_the_best
from support.commands import NO_LLM, QUESTIONS, benchmark, invoke, json_lines, table, write_lines
from support.embedding_servers import serving
from support.front_doors import Command, Http, Library, ids, make_indexed
from support.worlds import PAGES, numbered_pages

from branchrank.core.records import Chunk, Scored, StageTrace
from branchrank.index.embedders.protocol import conventional_prefixes

QUERY = "which temperature for green tea"
WORLD = {
    **PAGES,
    **{f"teas/{n:02}.md": f"# Sort {n}\n\n## Leaves\n\nA tea of kind {n}.\n" for n in range(12)},
    "long.md": "# Long\n\n## Leaves\n\n" + "".join(f"Leaf {n} of the tea is dried.\n\n" for n in range(30)),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_indexed(tmp_path_factory.mktemp("document-003"), WORLD, chunk_tokens=32)
    write_lines(folder / "data" / "benchmark" / "questions.jsonl")
    return folder


@pytest.fixture(scope="module")
def made(project: Path) -> Path:
    """A benchmark of the three predictors over six questions."""
    sample = ("--sample-size", 6, "--sample-seed", 42, "--latency-sample", 6)
    return benchmark(project, "--predictor", "all", *NO_LLM, *sample)


def nodes(project: Path) -> dict[str, dict[str, Any]]:
    """The lines of ``nodes.jsonl`` by id."""
    return {line["id"]: line for line in json_lines(project / "data" / "pageindex" / "nodes.jsonl")}


def chunks(project: Path) -> dict[str, dict[str, Any]]:
    """The lines of ``chunks.jsonl`` by id."""
    return {line["id"]: line for line in json_lines(project / "data" / "chunks.jsonl")}


def mentioning(project: Path, word: str) -> set[str]:
    """The sections whose own text holds a word."""
    found = re.compile(rf"\b{word}\b", re.IGNORECASE)
    return {key for key, node in nodes(project).items() if node["source"] and found.search(node["text"])}


class TestUpdatedRollout:
    def test_1_both_pipelines_use_bm25_from_bm25s(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """bm25s weighs the chunks and the sections; one command searches the first, one the second."""
        weighed = []
        select = bm25s.scoring._select_tfc_scorer

        def selecting(method: str) -> Any:
            weighed.append(method)
            return select(method)

        monkeypatch.setattr(bm25s.scoring, "_select_tfc_scorer", selecting)
        command = Command(make_indexed(tmp_path))
        found = [command.hits(*words, QUERY) for words in (("retrieve",), ("hybrid", "--no-llm"))]
        assert weighed == ["lucene", "lucene"]
        for hits, branch in zip(found, ("bm25(chunks)", "bm25(nodes)"), strict=True):
            assert any(branch in hit["branches"] for hit in hits)

    def test_2_hybrid_uses_global_bm25_instead_of_lexical_overlap(
        self, library: Library, project: Path
    ) -> None:
        """It ranks every section that holds a word of the query, not only those near the shortlist."""
        narrow = {"hybrid__vector_top_n": 1, "hybrid__neighbor_depth": 0, "hybrid__file_roots": 0}
        found = library.stages("tea", "hybrid", **narrow)
        expected = mentioning(project, "tea")
        assert len(expected) > 5
        assert expected <= set(found["bm25(nodes)"].keys)
        outside = expected - set(found["expansion"].keys)
        assert len(outside) > 4
        assert outside <= set(found["fusion"].keys)

    @pytest.mark.parametrize("name", ["local", "hybrid"])
    def test_3_dense_and_bm25_results_are_fused_by_rrf_with_k_60(
        self, library: Library, command: Command, name: str
    ) -> None:
        found = library.stages(QUERY, name)
        dense = found["dense(chunks)" if name == "local" else "expansion"].keys
        lexical = found["bm25(chunks)" if name == "local" else "bm25(nodes)"].keys
        expected: dict[str, float] = {}
        for branch in (dense, lexical):
            for rank, key in enumerate(branch, start=1):
                expected[key] = expected.get(key, 0.0) + 1 / (60 + rank)
        order = sorted(expected, key=lambda key: (-expected[key], key))
        assert list(found["fusion"].keys) == order
        assert found["fusion"].scores == pytest.approx([expected[key] for key in order])
        words = ("retrieve",) if name == "local" else ("hybrid", "--no-llm", "--return", "section")
        for hit in command.hits(*words, QUERY):
            assert hit["score"] == pytest.approx(expected[hit["id" if name == "local" else "node_id"]])

    def test_4_the_pageindex_only_retriever_gets_no_bm25_branch(self, command: Command) -> None:
        hits = command.hits("retrieve", "--predictor", "pageindex", QUERY)
        assert hits
        assert {tuple(hit["branches"]) for hit in hits} == {("tree",)}

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
    def test_5_commands_run_correctly(self, command: Command, tmp_path: Path, words: tuple[str, ...]) -> None:
        """Word for word over the bundled sample: ``tests/frontends/test_sample.py``."""
        sample = ("--sample-size", 5, "--sample-seed", 42, "--reports", tmp_path, "--latency-sample", 0)
        result = command(*words, *(sample if words[0] == "benchmark" else ()))
        assert result.exit_code == 0, result.output
        assert ("guide/brewing.md" if QUERY in words else words[4]) in result.stdout


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
        words += ["--bm25-k1", 1.5, "--bm25-b", 0.75, "--return", "section"]
        made = benchmark(project, "--predictor", part, *NO_LLM, *words, reports=tmp_path)
        run = json.loads((made / "run.json").read_text())
        assert (run["settings"]["bm25"]["k1"], run["settings"]["bm25"]["b"]) == (1.5, 0.75)
        dense, bm25 = ("dense(chunks)", "bm25(chunks)" if part == "local" else "bm25(nodes)")
        for row in json_lines(made / "rows.jsonl"):
            lists = {stage["stage"]: stage["keys"] for stage in row["trace"]}
            assert len(lists["dense(chunks)"]) == 7
            assert len(lists[bm25]) <= 9
            best = row["hits"][0]
            assert set(best["branches"]) <= {dense, bm25}
            key = best["id" if part == "local" else "node_id"]
            fused = ((dense if part == "local" else "expansion", 2.0), (bm25, 0.5))
            score = sum(weight / (4 + lists[name].index(key)) for name, weight in fused if key in lists[name])
            assert best["score"] == pytest.approx(score)


class TestWhyHybrid:
    def test_the_candidate_cap_is_applied_before_the_llm_reranks(self, library: Library) -> None:
        found = library.stages("tea", "hybrid", hybrid__candidate_cap=20)
        assert len(found["fusion"].keys) > 20
        assert found["cap"].keys == found["fusion"].keys[:20]


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """180 pages, indexed without a word about the vector store."""
    return make_indexed(tmp_path_factory.mktemp("chroma"), numbered_pages(), vector_store=None)


class TestStageAVectorShortlist:
    def test_1_the_query_is_embedded_by_coderankembed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With its query prefix; a small model of its architecture is embedded in ``tests/embedders``."""
        monkeypatch.chdir(tmp_path)
        text = " ".join(invoke("index", "--help").stdout.split()).replace("- ai", "-ai")
        assert "--embedder TEXT" in text
        assert "Default: nomic-ai/CodeRankEmbed" in text
        prefixes = conventional_prefixes("nomic-ai/CodeRankEmbed")
        assert prefixes.query == "Represent this query for searching relevant code: "
        assert prefixes.document == ""

    @pytest.mark.parametrize("n", [20, 40, 80])
    def test_2_the_top_n_chunk_hits_come_from_chroma(self, numbered: Path, n: int) -> None:
        with ExitStack() as opened:
            library = Library(numbered, opened)
            found = library.stages("a tea of leaves", "hybrid", hybrid__vector_top_n=n)["dense(chunks)"].keys
            exact = library.stages(
                "a tea of leaves", "hybrid", hybrid__vector_top_n=n, index__vector_store="exact"
            )
        assert len(found) == n
        assert found == exact["dense(chunks)"].keys

    @pytest.mark.parametrize("verb", [("retrieve", "--predictor", "dense"), ("hybrid", "--no-llm")])
    def test_2_a_chunk_that_chroma_omits_is_not_a_dense_hit(
        self, numbered: Path, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
    ) -> None:
        command = Command(numbered)

        def nearest(*store: str) -> list[str]:
            hits = command.hits(*verb, *store, "--top-k", 30, "a tea of leaves")
            places = {hit["id"]: hit["branches"].get("dense(chunks)") for hit in hits}
            return sorted((key for key, place in places.items() if place), key=lambda k: places[k]["rank"])

        before, exact = nearest(), nearest("--vector-store", "exact")
        drop_the_best(monkeypatch)
        after = nearest()
        assert before == exact
        assert before[0] not in after
        assert nearest("--vector-store", "exact") == exact

    def test_3_chunk_hits_map_to_nodes_by_source_and_line_overlap(self, tmp_path: Path) -> None:
        """Chunks of another origin, whose bounds are not those of sections."""
        own = [
            {"id": "x1", "source": "guide/brewing.md", "line_start": 6, "line_end": 12, "text": "green tea"},
            {"id": "x2", "source": "guide/cleaning.md", "line_start": 1, "line_end": 3, "text": "vinegar"},
            {"id": "x3", "source": "index.rst", "line_start": 1, "line_end": 4, "text": "teapot"},
            {"id": "x4", "source": "install.rst", "line_start": 1, "line_end": 15, "text": "setup"},
            {"id": "x5", "source": "reference/api.md", "line_start": 1, "line_end": 9, "text": "api"},
        ]
        make_indexed(tmp_path, chunks=write_lines(tmp_path / "foreign.jsonl", own))
        assert Command(tmp_path).hits("retrieve", "green tea")[0]["id"] == "x1"
        with ExitStack() as opened:
            library = Library(tmp_path, opened)
            mapped = [
                library.stages(query, "hybrid", hybrid__vector_top_n=1)["mapping"].keys
                for query in ("green tea", "vinegar")
            ]
        assert mapped == [
            ("guide/brewing.md#choosing-a-temperature", "guide/brewing.md#steeping-time"),
            ("guide/cleaning.md",),
        ]

    def test_4_the_evidence_of_a_node_uses_distance_hit_count_and_rank(
        self, library: Library, project: Path
    ) -> None:
        found = library.stages("leaf of the tea", "hybrid")
        node_of = {key: chunk["node_id"] for key, chunk in chunks(project).items()}
        expected: dict[str, float] = {}
        [manifest] = project.rglob("manifest.json")
        scale = json.loads(manifest.read_text())["cosines"]
        shortlist = list(zip(found["dense(chunks)"].keys, found["dense(chunks)"].scores, strict=True))
        counts = set()
        for node in {node_of[key] for key, _ in shortlist}:
            own = [(rank, score) for rank, (key, score) in enumerate(shortlist, 1) if node_of[key] == node]
            cosine = max(score for _, score in own)
            proximity = max(0.0, 0.130598973 + 0.129906284 * (cosine - scale["mean"]) / scale["deviation"])
            best_rank = min(rank for rank, _ in own)
            counts.add(len(own))
            expected[node] = 0.6 * proximity + 0.3 * 11 / (best_rank + 10) + 0.1 * (1 - 1 / len(own))
        assert {1} < counts
        mapped = dict(zip(found["mapping"].keys, found["mapping"].scores, strict=True))
        assert mapped == pytest.approx(expected)

    def test_the_output_is_candidate_nodes_and_candidate_files(self, library: Library, project: Path) -> None:
        """The candidate files are those of the best candidate nodes, each as its top section."""
        settings = {"hybrid__siblings": 0, "hybrid__vector_top_n": 30}
        known = nodes(project)
        without = library.stages(QUERY, "hybrid", hybrid__file_roots=0, **settings)
        candidates = without["mapping"]
        assert candidates.unit == "node"
        assert set(candidates.keys) <= set(known)
        assert list(candidates.scores) == sorted(candidates.scores, reverse=True)
        files = list(dict.fromkeys(known[key]["source"] for key in candidates.keys))
        assert len(files) > 2
        found = library.stages(QUERY, "hybrid", hybrid__file_roots=2, **settings)
        assert set(found["expansion"].keys) == {*without["expansion"].keys, *files[:2]}
        assert set(without["expansion"].keys).issuperset(candidates.keys)


TREE = {
    "a.md": "# A\n\ntop\n\n## B\n\nzebra stripes\n\n### C\n\nchild\n\n"
    "## D\n\nnext\n\n## E\n\nlast\n\n## F\n\nfar\n",
    "b.md": "# Other\n\n## Deep\n\nzebra herd\n",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The library over :data:`TREE`."""
    folder = make_indexed(tmp_path_factory.mktemp("tree"), TREE)
    with ExitStack() as opened:
        yield Library(folder, opened)


class TestStageBTreeExpansion:
    def reached(self, tree: Library, query: str = "B zebra stripes", **flags: object) -> StageTrace:
        """What is reached from a shortlist of one chunk."""
        settings = {"vector_top_n": 1, "file_roots": 0, **flags}
        named = {f"hybrid__{key}": value for key, value in settings.items()}
        found = tree.stages(query, "hybrid", **named)
        assert len(found["mapping"].keys) == 1
        assert set(found["expansion"].keys) <= set(found["fusion"].keys)
        return found["expansion"]

    def test_the_expansion_adds_the_parent(self, tree: Library) -> None:
        assert "a.md" in self.reached(tree).keys

    def test_the_expansion_adds_the_children(self, tree: Library) -> None:
        assert "a.md#b/c" in self.reached(tree).keys

    @pytest.mark.parametrize(("cap", "expected"), [(0, set()), (1, {"a.md#d"}), (2, {"a.md#d", "a.md#e"})])
    def test_the_expansion_adds_a_limited_number_of_siblings_per_node(
        self, tree: Library, cap: int, expected: set[str]
    ) -> None:
        found = set(self.reached(tree, siblings=cap).keys)
        assert found & {"a.md#d", "a.md#e", "a.md#f"} == expected

    def test_the_expansion_adds_a_few_file_roots_inferred_from_stage_a(self, tree: Library) -> None:
        without = self.reached(tree, query="child", siblings=0)
        assert without.keys == ("a.md#b/c", "a.md#b")
        found = self.reached(tree, query="child", siblings=0, file_roots=1)
        assert found.keys == ("a.md#b/c", "a.md#b", "a.md")
        assert found.scores[2] == pytest.approx(found.scores[0] / 2)

    def test_no_node_is_added_with_the_depth_0(self, tree: Library) -> None:
        assert self.reached(tree, neighbor_depth=0, file_roots=5).keys == ("a.md#b",)

    def test_a_seed_node_ranks_before_its_neighbors(self, tree: Library) -> None:
        assert self.reached(tree).keys[0] == "a.md#b"

    def test_the_output_is_a_compact_pool_of_20_to_50_nodes(self, command: Command) -> None:
        text = " ".join(command("hybrid", "--help").stdout.split())
        assert "(recommended: 20 to 50)" in text
        for cap in (20, 50):
            assert len(command.hits("hybrid", "--no-llm", "tea", "--hybrid-candidate-cap", cap)) == 5


class TestIntegrationPlan:
    def test_1_hybrid_runs_its_stages_in_the_planned_order(self, library: Library) -> None:
        assert list(library.stages(QUERY, "hybrid")) == [
            "dense(chunks)",
            "mapping",
            "expansion",
            "bm25(nodes)",
            "fusion",
            "cap",
            "passage order",
            "passages",
        ]

    def test_1_hybrid_settings_do_not_change_local_and_pageindex(self, library: Library) -> None:
        tuned = library(hybrid__rrf_k=1, hybrid__vector_top_n=3)
        for name in ("local", "pageindex"):
            hits = library().search(QUERY, name)
            assert hits
            assert tuned.search(QUERY, name) == hits

    def test_2_the_benchmark_has_a_hybrid_predictor(
        self, project: Path, tmp_path: Path, command: Command
    ) -> None:
        """It finds what the command ``hybrid`` finds."""
        made = benchmark(project, "--predictor", "hybrid", "--hybrid-no-llm", reports=tmp_path)
        assert table(made / "summary.csv")[0]["predictor"] == "hybrid"
        asked = {question["id"]: question["question"] for question in QUESTIONS}
        rows = json_lines(made / "rows.jsonl")
        for row in rows[:3]:
            hits = command.hits("hybrid", "--no-llm", "--top-k", 5, asked[row["question_id"]])
            assert ids(row["hits"][:5]) == ids(hits)

    def test_2_the_benchmark_has_the_hybrid_flags(self, command: Command) -> None:
        help_text = command("benchmark", "--help-all").stdout
        for flag in (
            "--predictor",
            "--hybrid-base-url",
            "--hybrid-model",
            "--hybrid-vector-top-n",
            "--hybrid-candidate-cap",
            "--hybrid-neighbor-depth",
            "--hybrid-no-llm",
        ):
            assert re.search(rf"{flag}\b", help_text), flag

    def test_2_the_hybrid_base_url_is_shared_with_an_embedder_that_has_no_endpoint(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A key is sent only to the host that it is for."""
        monkeypatch.setenv("BRANCHRANK_EMBEDDING_KEY", "key-for-embeddings")
        monkeypatch.setenv("BRANCHRANK_LLM_KEY", "key-for-the-llm")
        monkeypatch.setenv("OPENAI_API_KEY", "key-for-openai")
        command = Command(make_indexed(tmp_path))
        toml = command.data / "branchrank.toml"
        toml.write_text(toml.read_text().replace('"fake:64"', '"openai:small"'))
        with serving() as server, serving() as other:
            words = ("hybrid", "--no-llm", "--hybrid-base-url", f"{server.url}/v1", QUERY)
            assert len(command.hits(*words)) == 5
            assert server.inputs()[-1] == QUERY
            assert not any("authorization" in headers for _, headers, _ in server.requests)
            monkeypatch.setenv("BRANCHRANK_EMBEDDING_KEY_HOST", "127.0.0.1")
            assert command.hits(*words[:-1], "--embedding-url", f"{other.url}/v1", "kettle")
            assert other.inputs()[-1] == "kettle"
            sent = {headers["authorization"] for _, headers, _ in other.requests}
            assert sent == {"Bearer key-for-embeddings"}

    def test_3_post_retrieve_returns_the_same_format_for_every_predictor(
        self, http: Http, command: Command
    ) -> None:
        shapes = set()
        for name in ("local", "pageindex", "hybrid"):
            answer = http(QUERY, name, 2)
            assert answer["predictor"] == name
            assert answer["hits"] == command.hits("retrieve", "--predictor", name, "--top-k", 2, QUERY)
            shapes |= {(tuple(sorted(answer)), tuple(sorted(hit))) for hit in answer["hits"]}
        assert len(shapes) == 1


class TestDataAndArtifactRequirements:
    @pytest.mark.parametrize("name", ["chunks.jsonl", "chroma", "pageindex/nodes.jsonl"])
    def test_files_have_the_required_names(self, tmp_path: Path, name: str) -> None:
        assert (make_indexed(tmp_path, vector_store=None) / "data" / name).exists()

    def test_stored_chunks_and_nodes_match_the_search_results(self, command: Command, project: Path) -> None:
        stored, known = chunks(project), nodes(project)
        for hit in command.hits("retrieve", QUERY):
            assert hit["plain"] == stored[hit["id"]]["text"]
            assert hit["node_id"] in known
        assert set(known["guide/brewing.md"]) >= {
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
        source = make_indexed(tmp_path / "earlier")
        kept = [
            {key: line[key] for key in ("source", "line_start", "line_end", "text")} | {"id": f"c{number}"}
            for number, line in enumerate(json_lines(source / "data" / "chunks.jsonl"))
        ]
        own = {
            "chunks": write_lines(tmp_path / "old-chunks.jsonl", kept),
            "nodes": source / "data" / "pageindex" / "nodes.jsonl",
        }
        command = Command(make_indexed(tmp_path / "later", **own))
        hit = command.hits("hybrid", "--no-llm", "baking soda removes stains")[0]
        assert hit["id"] in {chunk["id"] for chunk in kept}
        assert hit["source"] == "guide/cleaning.md"

    def test_embeddings_are_cached_in_the_hybrid_cache_folder(self, command: Command) -> None:
        """Embeddings without an LLM; decisions of a reranker beside them in ``test_document_003_llm.py``."""
        command.hits("retrieve", QUERY)
        assert list((command.data / "hybrid" / "cache").iterdir())


class TestEvaluationPlan:
    def test_a_b_c_use_the_same_question_sample_and_seed(
        self, made: Path, project: Path, tmp_path: Path
    ) -> None:
        """The seed decides the sample, by question id: the order of the file does not."""

        def asked(run: Path) -> dict[str, list[str]]:
            rows = json_lines(run / "rows.jsonl")
            names = dict.fromkeys(row["predictor"] for row in rows)
            return {name: [r["question_id"] for r in rows if r["predictor"] == name] for name in names}

        first = asked(made)
        assert list(first) == ["local", "pageindex", "hybrid"]
        assert first["local"] == first["pageindex"] == first["hybrid"]
        assert len(first["local"]) == 6
        turned = write_lines(tmp_path / "turned.jsonl", QUESTIONS[::-1])
        samples = {
            seed: asked(
                benchmark(
                    project,
                    *("--predictor", "local", "--questions", turned),
                    *("--sample-size", 6, "--sample-seed", seed),
                    reports=tmp_path / str(seed),
                )
            )["local"]
            for seed in (42, 1, 2, 3)
        }
        assert samples[42] == first["local"]
        assert len({tuple(sample) for sample in samples.values()}) > 1

    @pytest.mark.parametrize("column", ["strict_hit@1", "strict_hit@5", "relaxed_hit@1", "relaxed_hit@5"])
    def test_the_report_has_strict_and_relaxed_hit_rates(self, made: Path, column: str) -> None:
        """Counted again from the hits and the gold of the questions."""
        mode, _, cutoff = column.partition("_hit@")
        gold = {question["id"]: question for question in QUESTIONS}
        for summary in table(made / "summary.csv"):
            rows = [
                row
                for row in json_lines(made / "rows.jsonl")
                if row["predictor"] == summary["predictor"] and row["question_id"] != "espresso"
            ]
            found = [
                any(counts(hit, gold[row["question_id"]], mode) for hit in row["hits"][: int(cutoff)])
                for row in rows
            ]
            assert float(summary[column]) == pytest.approx(sum(found) / len(found))

    @pytest.mark.parametrize(("column", "share"), [("latency_p50_ms", 0.5), ("latency_p95_ms", 0.95)])
    def test_the_report_has_p50_and_p95_latency_per_query(
        self, made: Path, column: str, share: float
    ) -> None:
        """The share-th of the queries' own times."""
        timings = [row for row in table(made / "timings.csv") if row["stage"] == "total"]
        for summary in table(made / "summary.csv"):
            times = sorted(
                float(row["ms"])
                for row in timings
                if row["predictor"] == summary["predictor"] and row["phase"] == "warm"
            )
            assert len(set(times)) > 3
            assert float(summary[column]) == pytest.approx(times[math.ceil(share * len(times)) - 1], rel=1e-3)

    @pytest.mark.parametrize("column", ["llm_calls_per_query", "llm_tokens_per_query"])
    def test_the_report_has_llm_calls_and_tokens_per_query(self, made: Path, column: str) -> None:
        """Zero since the ledger is empty; with an LLM: ``test_document_003_llm.py``."""
        assert {row[column] for row in table(made / "summary.csv")} == {"0"}
        assert table(made / "llm_calls.csv") == []

    def test_the_report_is_written_as_csv_and_markdown(self, made: Path) -> None:
        report = (made / "report.md").read_text(encoding="utf-8")
        for name in ("local", "pageindex", "hybrid"):
            assert name in report
        assert (made / "questions.csv").stat().st_size > 0


def counts(hit: dict[str, Any], question: dict[str, Any], mode: str) -> bool:
    """Whether a hit answers a question: the gold source, and in strict mode lines that overlap."""
    for gold in (question, *question.get("alternates", ())):
        if hit["source"] != gold["source_file"]:
            continue
        quote = gold.get("answer_quote")
        if mode == "relaxed" or gold.get("gold_level") == "file":
            return True
        first, last = QUOTED[quote] if quote else (gold["answer_line_start"], gold["answer_line_end"])
        if hit["line_start"] <= last and first <= hit["line_end"]:
            return True
    return False


#: Where the quotes of the questions stand.
QUOTED = {"steeps for ten minutes": (16, 16)}


class TestSuggestedDefaults:
    @pytest.mark.parametrize(
        ("verb", "flag", "value"),
        [
            ("hybrid", "--hybrid-vector-top-n", 40),
            ("hybrid", "--hybrid-candidate-cap", 30),
            ("hybrid", "--hybrid-neighbor-depth", 1),
            ("hybrid", "--hybrid-siblings", 2),
            ("hybrid", "--hybrid-bm25-top-n", 80),
            ("hybrid", "--hybrid-rrf-k", 60),
            ("retrieve", "--local-vector-top-n", 40),
            ("retrieve", "--local-bm25-top-n", 80),
            ("retrieve", "--local-rrf-k", 60),
        ],
    )
    def test_the_default_is_the_suggested_value(
        self, command: Command, verb: str, flag: str, value: int
    ) -> None:
        text = " ".join(command(verb, "--help-all").stdout.split())
        [described] = re.findall(rf"{flag} INTEGER (.*?)(?= --|$)", text)
        assert f"Default: {value}." in described

    @pytest.mark.parametrize("verb", [("retrieve",), ("hybrid", "--no-llm")], ids=" ".join)
    def test_final_top_k_is_5(self, command: Command, verb: tuple[str, ...]) -> None:
        assert len(command.hits(*verb, "tea")) == 5


class TestRisksAndMitigations:
    def test_a_chunk_that_overlaps_no_node_maps_to_the_file_root(
        self, library: Library, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No index that is accepted has such a chunk today, so one is put into an open index."""
        engine = library(hybrid__vector_top_n=1).engine
        stray = Chunk(
            id="stray",
            node_id="",
            source="guide/brewing.md",
            line_start=500,
            line_end=510,
            breadcrumb="",
            text="beyond every section",
        )
        assert engine.index.bm25_chunks.ids  # read before a chunk is added that it does not hold
        monkeypatch.setattr(type(engine.index.vectors), "search", lambda *_: [Scored("stray", 0.9)])
        chunks = type(engine.index.chunks)
        read = chunks.__getitem__
        monkeypatch.setattr(
            chunks, "__getitem__", lambda self, key: stray if key == "stray" else read(self, key)
        )
        found = library.stages("beyond every section", "hybrid", hybrid__vector_top_n=1)
        assert found["dense(chunks)"].keys == ("stray",)
        assert found["mapping"].keys == ("guide/brewing.md",)

    def test_the_candidate_cap_is_never_exceeded(self, library: Library) -> None:
        found = library.stages("tea", "hybrid", 100, hybrid__candidate_cap=7)
        assert len(found["fusion"].keys) > 7
        assert len(found["cap"].keys) == 7
        assert {key.rpartition("@")[0] for key in found["passages"].keys} <= set(found["cap"].keys)

    def test_every_candidate_has_a_fallback_score(self, library: Library) -> None:
        """Of every candidate the evidence or the lexical score is known."""
        found = library.stages(QUERY, "hybrid")
        scored = {*found["expansion"].keys, *found["bm25(nodes)"].keys}
        assert set(found["cap"].keys) <= scored
        assert all(math.isfinite(score) and score > 0 for score in found["cap"].scores)


class TestRolloutPhases:
    def test_3_a_benchmark_can_use_100_questions(self, project: Path, tmp_path: Path) -> None:
        pages = [{"source_file": source, "gold_level": "file"} for source in PAGES]
        lines = [{"id": f"q{n:03d}", "question": f"tea {n}", **pages[n % len(pages)]} for n in range(130)]
        path = write_lines(tmp_path / "questions.jsonl", lines)
        words = ("--predictor", "all", *NO_LLM, "--questions", path, "--sample-size", 100)
        made = benchmark(project, *words, reports=tmp_path / "reports")
        rows = table(made / "summary.csv")
        assert [row["questions"] for row in rows] == ["100"] * 3

    def test_4_a_sweep_tunes_candidate_limits_and_neighbor_policy(
        self, project: Path, tmp_path: Path, command: Command
    ) -> None:
        experiment = tmp_path / "tune.toml"
        experiment.write_text(
            f'name = "tune"\ndata_dir = "{project / "data"}"\n'
            "[benchmark]\nlatency_sample = 0\n"
            '[systems.hybrid]\nrerank.method = "none"\n'
            "sweep = { candidate_cap = [20, 50], neighbor_depth = [0, 1] }\n"
        )
        result = command.run(experiment, "--reports", tmp_path / "reports")
        assert result.exit_code == 0, result.output
        [made] = (tmp_path / "reports").iterdir()
        assert [row["predictor"] for row in table(made / "summary.csv")] == [
            f"hybrid[candidate_cap={cap}, neighbor_depth={depth}]" for cap in (20, 50) for depth in (0, 1)
        ]
