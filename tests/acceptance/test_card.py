"""The project's card: what it is, what it is made of, where things lie, and who uses it for what."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import NO_LLM, ROOT, benchmark, json_lines, make_project, program, table
from support.front_doors import Command

QUERY = "how do I upgrade the daemon"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("card"))


@pytest.fixture(scope="module")
def made(project: Path) -> Path:
    """A seeded A/B/C benchmark."""
    return benchmark(project, "--predictor", "all", *NO_LLM, "--sample-size", 6, "--sample-seed", 7)


class TestKind:
    def test_offline_retrieval_benchmarking(self, project: Path, tmp_path: Path) -> None:
        """In a process that can open no connection at all."""
        code = (
            "import socket, sys\n"
            "def refuse(*_): raise AssertionError('a connection')\n"
            "socket.socket.connect = socket.socket.connect_ex = refuse\n"
            "from branchrank.frontends.cli.main import main\n"
            "main(sys.argv[1:])\n"
        )
        words = ("benchmark", "--predictor", "all", *NO_LLM, "--latency-sample", 1, "--reports", tmp_path)
        done = program("-c", code, *words, cwd=project)
        assert done.returncode == 0, done.stderr

    def test_experiment_harness(self, command: Command, project: Path, tmp_path: Path) -> None:
        experiment = tmp_path / "x.toml"
        experiment.write_text(
            f'name = "x"\ndata_dir = "{project / "data"}"\n'
            '[systems.local]\n[systems.k1]\nfrom = "local"\nrrf_k = 1\n'
        )
        result = command.run(experiment, "--dry-run")
        assert result.exit_code == 0
        assert "k1 on index default: 8 queries" in result.stdout


class TestShape:
    """In detail: ``test_document_003_plan.py`` and ``test_document_003_llm.py``."""

    def test_hybrid_maps_and_expands_a_vector_shortlist_and_fuses_it_with_global_bm25(
        self, made: Path
    ) -> None:
        rows = [row for row in json_lines(made / "rows.jsonl") if row["predictor"] == "hybrid"]
        stages = ["dense(chunks)", "mapping", "expansion", "bm25(nodes)", "fusion", "cap"]
        stages += ["passage order", "passages"]
        assert {tuple(row["stages"]) for row in rows} == {tuple(stages)}

    def test_the_llm_reranker_is_optional(self, made: Path, command: Command) -> None:
        """Without an endpoint there is none; an endpoint that cannot be reached is refused."""
        assert {row["llm"] for row in table(made / "summary.csv")} == {"none"}
        assert command.hits("hybrid", QUERY) == command.hits("hybrid", "--no-llm", QUERY)
        nowhere = ("--hybrid-base-url", "http://127.0.0.1:9/v1", "--hybrid-model", "m")
        refused = command("benchmark", "--predictor", "hybrid", *nowhere)
        assert refused.exit_code == 7
        assert "--hybrid-no-llm" in refused.stderr

    def test_a_benchmark_compares_the_three_predictors(self, made: Path) -> None:
        rows = table(made / "summary.csv")
        assert [row["predictor"] for row in rows] == ["local", "pageindex", "hybrid"]
        for column in ("hit@1", "hit@5"):
            assert all(
                0 <= float(row[f"{mode}_{column}"]) <= 1 for row in rows for mode in ("strict", "relaxed")
            )
        for column in ("latency_p50_ms", "latency_p95_ms", "llm_calls_per_query", "llm_tokens_per_query"):
            assert all(column in row for row in rows)


class TestUsedBy:
    def test_seeded_a_b_c_benchmarks_are_reproducible(
        self, project: Path, made: Path, tmp_path: Path
    ) -> None:
        words = ("--predictor", "all", *NO_LLM, "--sample-size", 6, "--sample-seed", 7)
        again = benchmark(project, *words, reports=tmp_path)
        for name in ("rows.jsonl", "questions.csv", "summary.csv"):
            assert (again / name).read_bytes() == (made / name).read_bytes()

    @pytest.mark.parametrize(
        "door", [("retrieve.py",), ("hybrid_retrieve.py", "--no-llm"), ("pageindex_common.py", "show")]
    )
    def test_smoke_test_of_cli_queries(self, project: Path, door: tuple[str, ...]) -> None:
        query = () if door[0] == "pageindex_common.py" else (QUERY,)
        done = program(ROOT / door[0], *door[1:], *query, cwd=project)
        assert (done.returncode, done.stderr) == (0, "")
        assert "install.rst" in done.stdout
