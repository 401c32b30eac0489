"""Document 000, "Vector Search Threshold": a default of 0.5, and a model that it would silence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.commands import json_lines, write_lines
from support.front_doors import Command, Http, Library, Mcp, Tui, make_indexed


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nobody sets a threshold, and 0.5 finds no chunk for most queries."""
    return make_indexed(tmp_path_factory.mktemp("threshold"))


class TestTheDefaultThresholdAndTheModel:
    """0.5 stays the default. An index whose model it would silence has a calibrated value in its place."""

    QUERY = "which temperature for green tea"
    HALF: dict[str, object] = {"grep__vector_score_threshold": 0.5}  # noqa: RUF012 - never changed

    def test_the_index_tests_the_default_and_settings_show_the_threshold_in_use(
        self, command: Command, library: Library
    ) -> None:
        measured = library().index.manifest.distance
        assert 2 * measured.losing > measured.probes
        shown = command("settings").stdout
        assert re.search(r"vector_score_threshold = 0\.5  \(default\)", shown)
        assert f"in use: {measured.words}" in shown
        assert f"{measured.threshold:g}" in measured.words

    def test_search_results_show_the_calibrated_threshold(
        self, library: Library, mcp: Mcp, http: Http, tui: Tui, command: Command
    ) -> None:
        words = library().index.manifest.distance.words
        for tool, argument in (("vector_search", "query"), ("hybrid_search", "semantic_query")):
            answer = mcp(tool, **{argument: self.QUERY})
            assert words in answer.text
            assert words in answer.status
            assert answer.results
        assert any(each["distance"] >= 0.5 for each in mcp("vector_search", query=self.QUERY).results)
        assert words in http(self.QUERY, "grep")["notices"]
        assert words in command.json("retrieve", "--predictor", "grep", self.QUERY)["notices"]
        assert any(words in line for line in tui("vector", self.QUERY).log)

    def test_a_threshold_that_the_user_sets_is_not_calibrated_and_a_warning_is_shown(
        self, mcp: Mcp, http: Http, command: Command, tui: Tui
    ) -> None:
        """The same 0.5, given by a person, drops every chunk; each door says so."""
        answer = mcp("vector_search", self.HALF, query=self.QUERY)
        assert answer.results == []
        (said,) = re.findall(r"0 of \d+ candidates are below the distance threshold 0\.5", answer.status)
        assert said in answer.text
        assert any(said in line for line in tui("vector", self.QUERY, **self.HALF).log)
        assert any(said in each for each in http(self.QUERY, "grep", **self.HALF)["notices"])
        words = ("--predictor", "grep", "--grep-vector-score-threshold", 0.5)
        assert any(said in each for each in command.json("retrieve", *words, self.QUERY)["notices"])

    def test_a_report_shows_the_calibrated_threshold_or_warns_about_a_user_threshold(
        self, command: Command, library: Library, tmp_path: Path
    ) -> None:
        lines = [
            {"id": f"q{n}", "question": text, "source_file": "install.rst", "gold_level": "file"}
            for n, text in enumerate(("replace the package", "coffee", "which vinegar", "kettle"))
        ]
        path = write_lines(tmp_path / "questions.jsonl", lines)

        def report(name: str, *words: object) -> tuple[str, str]:
            where = ("--questions", path, "--reports", tmp_path / name, "--latency-sample", 0)
            result = command("benchmark", "--predictor", "grep", "--quiet", *where, *words)
            assert result.exit_code == 0, result.output
            (run,) = (tmp_path / name).iterdir()
            return (run / "report.md").read_text(), result.stdout

        calibrated, _ = report("calibrated")
        assert library().index.manifest.distance.words in calibrated
        assert "Warning: grep" not in calibrated
        literal, printed = report("literal", "--grep-vector-score-threshold", 0.5)
        assert library().index.manifest.distance.words not in literal
        for text in (literal, " ".join(printed.split())):
            assert "the distance threshold 0.5 leaves" in text

    def test_a_threshold_in_an_experiment_file_is_not_calibrated(
        self, command: Command, project: Path, tmp_path: Path
    ) -> None:
        lines = [{"id": "q", "question": self.QUERY, "source_file": "install.rst", "gold_level": "file"}]
        experiment = tmp_path / "experiment.toml"
        experiment.write_text(
            f'name = "x"\ndata_dir = "{project / "data"}"\n'
            f'questions = "{write_lines(tmp_path / "questions.jsonl", lines)}"\n'
            '[systems.grep]\n[systems.half]\nfrom = "grep"\nbranches.dense.threshold = 0.5\n'
            '[systems.again]\nfrom = "half"\nbranches.dense.threshold = "calibrated"\n'
        )
        result = command.run(experiment, "--reports", tmp_path / "reports", "--quiet", "--latency-sample", 0)
        assert result.exit_code == 0, result.output
        (run,) = (tmp_path / "reports").iterdir()
        found = {
            row["predictor"]: any("dense(chunks)" in hit["branches"] for hit in row["hits"])
            for row in json_lines(run / "rows.jsonl")
        }
        assert found == {"grep": True, "half": False, "again": True}
