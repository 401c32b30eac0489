"""Another package adds one object of each kind: installed, listed, indexed with and benchmarked."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.commands import ROOT, json_lines, program, write_lines
from support.worlds import write_pages

PACKAGE = ROOT / "tests" / "plugin_package"
GUIDE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


def example(language: str, containing: str) -> str:
    """The code block of the guide that contains a text."""
    (block,) = (b for b in re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL) if containing in b)
    return block


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as ``pip install --target`` leaves it: the module and its metadata."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(PACKAGE / "branchrank_titles.py", folder)
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, installed: Path) -> Path:
    """A folder with documents, indexed with the package's embedder, and questions."""
    folder = tmp_path_factory.mktemp("plugin")
    write_pages(folder / "docs")
    words = ("--embedder", "letters:etaoinshrdlu", "--vector-store", "exact", "--quiet")
    done = command(folder, installed, "index", "docs", *words)
    assert done.returncode == 0, done.stderr
    write_lines(folder / "data" / "benchmark" / "questions.jsonl")
    (folder / "titles.toml").write_text(example("toml", 'kind = "titles"'))
    return folder


def command(folder: Path, *words: object) -> Any:
    """``branchrank WORDS`` as a program; the first word may be a folder of installed packages."""
    path = []
    if isinstance(words[0], Path):
        path, words = [str(words[0])], words[1:]
    path += filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)])
    environment = {"PYTHONPATH": os.pathsep.join(path), "HF_HUB_OFFLINE": "1"}
    return program("-m", "branchrank.frontends.cli.main", *words, cwd=folder, environment=environment)


def manifest(project: Path) -> dict[str, Any]:
    (path,) = (project / "data" / "indexes").glob("*/current/manifest.json")
    return json.loads(path.read_text())


def test_the_guide_shows_the_code_of_the_package() -> None:
    assert example("python", "class TitlesKind") == (PACKAGE / "branchrank_titles.py").read_text()
    shown = tomllib.loads(example("toml", "branchrank.branches"))
    assert shown["project"] == {
        "entry-points": tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["entry-points"]
    }


def test_the_index_is_embedded_with_the_packages_embedder(project: Path) -> None:
    embedder = manifest(project)["embedder"]
    assert (embedder["name"], embedder["model"], embedder["dimension"]) == ("letters", "etaoinshrdlu", 12)


def test_a_search_embeds_the_query_the_same_way(project: Path, installed: Path) -> None:
    words = ("retrieve", "--predictor", "dense", "--json", "--top-k", 3)
    done = command(project, installed, *words, "Baking soda removes tannin stains.")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hits"][0]["node_id"] == "guide/cleaning.md#removing-stains"


def test_an_experiment_benchmarks_the_packages_branch_kind(project: Path, installed: Path) -> None:
    flags = ("--reports", "reports", "--latency-sample", 0)
    done = command(project, installed, "run", "titles.toml", *flags, "--quiet")
    assert done.returncode == 0, done.stderr
    (run,) = (project / "reports").iterdir()
    rows = {(row["predictor"], row["question_id"]): row for row in json_lines(run / "rows.jsonl")}
    assert {predictor for predictor, _ in rows} == {"sections", "with-titles"}
    assert all(row["status"] == "ok" for row in rows.values())
    first = rows["with-titles", "stains"]["hits"][0]
    assert first["node_id"] == "guide/cleaning.md#removing-stains"
    assert first["branches"]["titles"] == {"rank": 1, "score": 0.5 / 1.5}
    assert "titles" in rows["with-titles", "stains"]["stages"]
    assert all(
        "titles" not in hit["branches"]
        for row in rows.values()
        if row["predictor"] == "sections"
        for hit in row["hits"]
    )


@pytest.mark.parametrize(
    ("branch", "said"),
    [
        (
            '{ kind = "titles", unit = "chunk" }',
            "has a branch titles with the unit chunk, which must be node",
        ),
        ('{ kind = "titles", unit = "node", options = { most = 3 } }', "titles has no option 'most'"),
        ('{ kind = "titles", unit = "node", threshold = 0.5 }', "`threshold`"),
        ('{ kind = "titels", unit = "node" }', "did you mean `titles`?"),
    ],
)
def test_unsupported_options_of_a_branch_kind_are_refused_before_any_query(
    project: Path, installed: Path, branch: str, said: str
) -> None:
    (project / "wrong.toml").write_text(f'name = "wrong"\n[systems.wrong]\nbranches = [{branch}]\n')
    done = command(project, installed, "run", "wrong.toml", "--reports", "none")
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert not (project / "none").exists()


def test_the_packages_chunker_makes_an_index_of_its_own(project: Path, installed: Path) -> None:
    words = ("--embedder", "none", "--chunker", "lines", "--chunk-tokens", 32, "--data-dir", "lines")
    done = command(project, installed, "index", "docs", *words)
    assert done.returncode == 0, done.stderr
    (made,) = (project / "lines" / "indexes").glob("*/current")
    assert json.loads((made / "manifest.json").read_text())["chunker"] == "branchrank-titles 0.1.0"
    texts = [chunk["text"] for chunk in json_lines(made / "chunks.jsonl")]
    pages = [path.read_text() for path in (project / "docs").rglob("*.*")]
    assert len(texts) > len(pages)
    assert all(any(text in page for page in pages) for text in texts)
    unknown = command(project, "index", "docs", *words[:-1], "unknown")
    assert "no chunker 'lines'" in unknown.stderr


def test_without_the_package_both_names_are_unknown(project: Path, installed: Path) -> None:
    done = command(project, "run", "titles.toml", "--reports", "none")
    assert done.returncode == 2
    assert "branch kind 'titles'" in done.stderr
    done = command(project, "retrieve", "--predictor", "dense", "tea")
    assert done.returncode == 2
    assert "no embedder 'letters'" in done.stderr


def test_the_packages_reader_reads_files_with_its_suffix(tmp_path: Path, installed: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tea.notes").write_text("* Tea\n\nBrew it.\n** Oolong\nSteep it.\n")
    words = ("index", "docs", "--embedder", "none")
    done = command(tmp_path, installed, *words)
    assert done.returncode == 0, done.stderr
    nodes = json_lines(tmp_path / "data" / "pageindex" / "nodes.jsonl")
    assert [(node["id"], node["line_start"], node["own_line_end"]) for node in nodes[1:]] == [
        ("tea.notes", 1, 3),
        ("tea.notes#oolong", 4, 5),
    ]
    assert "contains no documents" in command(tmp_path, *words).stderr


def test_a_reader_of_a_suffix_that_has_one_is_refused(tmp_path: Path, installed: Path) -> None:
    site = Path(shutil.copytree(installed, tmp_path / "site"))
    (entries,) = site.glob("*/entry_points.txt")
    entries.write_text("[branchrank.readers]\nmd = branchrank_titles:NOTES\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("# Tea\n")
    done = command(tmp_path, site, "index", "docs", "--embedder", "none")
    assert done.returncode == 2
    assert "the installed reader branchrank_titles:NOTES has the name '.md'" in done.stderr


def test_the_packages_measure_is_computed(project: Path, installed: Path) -> None:
    words = ("--predictor", "bm25", "--measure", "SRR@5", "--measure", "RR@5", "--reports", "measured")
    done = command(project, installed, "benchmark", *words, "--latency-sample", 0, "--quiet")
    assert done.returncode == 0, done.stderr
    (run,) = (project / "measured").iterdir()
    with (run / "questions.csv").open(encoding="utf-8-sig") as file:
        rows = [row for row in csv.DictReader(file) if row["RR@5"]]
    assert rows
    assert [float(row["SRR@5"]) for row in rows] == [float(row["RR@5"]) ** 2 for row in rows]
    done = command(project, "benchmark", *words, "--latency-sample", 0)
    assert done.returncode == 2
    assert "unknown measure 'SRR@5'" in done.stderr


def test_installed_objects_are_listed_with_their_errors(tmp_path: Path, installed: Path) -> None:
    listed = [line.split() for line in command(tmp_path, installed, "plugins").stdout.splitlines()]
    origin = ["branchrank-titles", "0.1.0"]
    assert listed == [
        ["kind", "name", "package", "version", "error"],
        ["branch", "kind", "titles", *origin],
        ["embedder", "letters", *origin],
        ["reader", "notes", *origin],
        ["chunker", "lines", *origin],
        ["measure", "SRR", *origin],
    ]
    site = Path(shutil.copytree(installed, tmp_path / "site"))
    (entries,) = site.glob("*/entry_points.txt")
    entries.write_text("[branchrank.readers]\nmd = branchrank_titles:NOTES\ntex = branchrank_titles:TEX\n")
    _, taken, absent = command(tmp_path, site, "plugins").stdout.splitlines()
    assert "belongs to BranchRank" in taken
    assert "has no attribute 'TEX'" in absent
    assert command(tmp_path, "plugins").returncode == 0


def test_the_package_imports_only_the_plugin_names() -> None:
    tree = ast.parse((PACKAGE / "branchrank_titles.py").read_text())
    homes = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert homes == ["branchrank.plugins"]


def test_an_unknown_route_is_refused_with_the_known_ones(project: Path, installed: Path) -> None:
    done = command(project, installed, "index", "docs", "--data-dir", "other", "--embedder", "zzz:1")
    assert done.returncode == 2
    assert "choose from fake, openai, ollama, letters" in done.stderr
    near = command(project, installed, "index", "docs", "--data-dir", "other", "--embedder", "leters:abc")
    assert "did you mean `letters`?" in near.stderr
