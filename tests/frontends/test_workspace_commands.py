"""Commands that make a workspace and look at it."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.commands import invoke, json_lines, make_project, program, write_lines
from support.worlds import PAGES, make_index, write_pages

from branchrank.core.errors import ArtifactError
from branchrank.core.records import Span
from branchrank.core.settings import PARTS, settings_of
from branchrank.index.generations import build_lock
from branchrank.index.reader import open_index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.questions.labels import Choice, with_label
from branchrank.questions.question_files import load_questions, write_questions

FAKE = ("--embedder", "fake:64", "--vector-store", "exact")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("workspace"))


def ran(*words: object) -> str:
    """What a command prints that succeeds."""
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_index_creates_a_workspace_and_reports_its_contents(tmp_path: Path) -> None:
    write_pages(tmp_path / "docs")
    data = tmp_path / "data"
    said = ran("index", tmp_path / "docs", "--data-dir", data, *FAKE, "--exclude", "reference/*")
    counts = r"(\d+) documents, (\d+) nodes, (\d+) chunks; (\d+) texts embedded with fake, 0 reused"
    found = re.fullmatch(rf".*: {counts}; [\d.]+ s\n", said)
    assert found, said
    documents, nodes, chunks, embedded = map(int, found.groups())
    assert documents == len(PAGES) - 1
    assert chunks == embedded == len(json_lines(data / "chunks.jsonl"))
    assert nodes == len(json_lines(data / "pageindex" / "nodes.jsonl"))
    kept = tomllib.loads((data / "branchrank.toml").read_text())
    assert kept["exclude"] == ["reference/*"]
    assert kept["index"] == {"embedder": "fake:64", "vector_store": "exact"}
    assert not Path(kept["corpus"]).is_absolute()


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (("--embedder", "fake:8"), ("index.embedder",)),
        (("--embedder", "fake:8", "--chunk-tokens", 64), ("index.chunk_tokens", "index.embedder")),
        (("--embedder", "fake"), ()),
        (("--bm25-k1", 1.0), ()),
        ((), ()),
    ],
    ids=str,
)
def test_index_says_which_settings_of_later_commands_it_changes(
    tmp_path: Path, words: tuple[object, ...], changed: tuple[str, ...]
) -> None:
    docs, data = write_pages(tmp_path / "docs"), tmp_path / "data"
    first = invoke("index", docs, "--data-dir", data, "--embedder", "fake", *FAKE[2:])
    assert "before:" not in first.stderr
    again = invoke("index", "--data-dir", data, *words)
    assert again.exit_code == 0, again.output
    said = [line for line in again.stderr.splitlines() if "(before: " in line]
    assert tuple(sorted(line.split(": ")[1].split(" ")[0] for line in said)) == changed
    assert all(str(data / "branchrank.toml") in line for line in said)
    assert all("'fake'" in line or "256" in line for line in said)


def test_a_wrong_exclude_is_not_stored_in_the_workspace_file(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    config = project / "data" / "branchrank.toml"
    before = config.read_bytes()
    refused = invoke("index", "--data-dir", project / "data", "--exclude", "*")
    assert refused.exit_code == 3
    assert "contains no documents" in refused.stderr
    assert config.read_bytes() == before
    assert "up to date" in ran("index", "--data-dir", project / "data")
    new = tmp_path / "new"
    assert invoke("index", project / "docs", "--data-dir", new, "--exclude", "*", *FAKE).exit_code == 3
    assert not (new / "branchrank.toml").exists()


@pytest.mark.full
def test_a_missing_model_is_not_stored_in_the_workspace_file(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    project = make_project(tmp_path)
    config = project / "data" / "branchrank.toml"
    before = config.read_bytes()
    refused = invoke("index", "--data-dir", project / "data", "--embedder", tmp_path / "none")
    assert refused.exit_code == 6, refused.output
    assert config.read_bytes() == before


def test_a_workspace_that_another_process_is_building_is_not_changed(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    config = project / "data" / "branchrank.toml"
    before = config.read_bytes()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "page.md").write_text("# Other\n\nText.\n")
    write_lines(tmp_path / "own" / "chunks.jsonl", [{"id": "a", "text": "Text.", "source": "page.md"}])
    at = ("--data-dir", project / "data")
    with build_lock(project / "data"):
        refused = invoke("index", tmp_path / "other", *at)
        adopted = invoke("adopt", tmp_path / "own", "--corpus", tmp_path / "other", *at)
    assert (refused.exit_code, adopted.exit_code) == (4, 4), refused.output + adopted.output
    assert config.read_bytes() == before
    assert not (project / "data" / "adopted").exists()


def test_of_first_builds_at_once_the_winner_alone_writes_the_settings(tmp_path: Path) -> None:
    write_pages(tmp_path / "docs")
    embedders = ("fake:16", "fake:32")

    def build(words: tuple[str, str]) -> int:
        given = ("index", "docs", "--data-dir", words[0], "--embedder", words[1], *FAKE[2:])
        return program("-m", "branchrank", *given, cwd=tmp_path).returncode

    for place in ("first", "second"):
        with ThreadPoolExecutor(2) as threads:
            codes = dict(
                zip(embedders, threads.map(build, [(place, each) for each in embedders]), strict=True)
            )
        assert 0 in codes.values()
        assert set(codes.values()) <= {0, 4}
        kept = tomllib.loads((tmp_path / place / "branchrank.toml").read_text())["index"]["embedder"]
        assert codes[kept] == 0
        open_index(WorkspaceFolder.open(tmp_path / place)).close()


def test_indexing_again_embeds_only_changed_documents(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    page = project / "docs" / "guide" / "cleaning.md"
    page.write_text(page.read_text() + "\n## New\n\nOne new section.\n")
    with pytest.raises(ArtifactError, match=r"cleaning\.md has changed") as caught:
        open_index(WorkspaceFolder.open(project / "data", environment={}))
    assert "branchrank index" in caught.value.remedy
    said = ran("index", "--data-dir", project / "data")
    embedded, reused = map(int, re.findall(r"(\d+) (?:texts? embedded|reused)", said))
    assert embedded == 1
    assert reused >= 10


def test_the_path_of_a_model_folder_is_stored_as_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a build that is interrupted, so that it can be resumed."""

    def interrupted(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "models" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("branchrank.index.index_build.build_index", interrupted)
    data = tmp_path / "data"
    write_pages(tmp_path / "docs")
    assert invoke("index", tmp_path / "docs", "--data-dir", data, "--embedder", "models/mine").exit_code != 0
    kept = tomllib.loads((data / "branchrank.toml").read_text())
    assert kept["index"]["embedder"] == str(tmp_path / "models" / "mine")


def test_quiet_indexing_counts_the_notes(tmp_path: Path) -> None:
    pages = {
        f"{name}.md": f"# {name}\n\n[gone](missing-{name}.md)\n\n```{{toctree}}\nno-{name}\n```\n"
        for name in "ab"
    }
    write_pages(tmp_path / "docs", pages)
    words = ("index", tmp_path / "docs", "--data-dir", tmp_path / "data", "--embedder", "none")
    loud = [line for line in invoke(*words).stderr.splitlines() if line.startswith("note: ")]
    assert len(loud) > 1
    quiet = invoke(*words, "--quiet").stderr
    assert f"note: {len(loud)} notes" in quiet
    assert loud[0] not in quiet


def test_show_prints_a_subtree(project: Path, tmp_path: Path) -> None:
    shown = ran("pageindex", "show", "guide/brewing.md", "--data-dir", project / "data")
    assert shown.splitlines() == [
        "Brewing  [guide/brewing.md]  lines 1-4, with subsections to 20",
        "  Choosing a temperature  [guide/brewing.md#choosing-a-temperature]  lines 5-9",
        "  Steeping time  [guide/brewing.md#steeping-time]  lines 10-13, with subsections to 17",
        "    Herbal tea  [guide/brewing.md#steeping-time/herbal-tea]  lines 14-17",
        "  Errors  [guide/brewing.md#errors]  lines 18-20",
    ]
    make_index(tmp_path, {"two.md": "# One\n# Two\n"})[0].close()
    bare = ran("pageindex", "show", "two.md", "--data-dir", tmp_path / "data")
    assert bare.splitlines()[0] == "two  [two.md]", "a document without lines outside its sections"
    short = ran("pageindex", "show", "guide/brewing.md", "--depth", 1, "--data-dir", project / "data")
    assert "Herbal tea" in shown
    assert "Herbal tea" not in short
    assert ran("pageindex", "show", "--data-dir", project / "data").startswith("docs")


def test_build_writes_a_tree_elsewhere_and_check_reads_it(project: Path, tmp_path: Path) -> None:
    output = tmp_path / "nodes.jsonl"
    ran("pageindex", "build", "--data-dir", project / "data", "--output", output)
    assert output.read_bytes() == (project / "data" / "pageindex" / "nodes.jsonl").read_bytes()
    for tree in ([output], []):
        ran("pageindex", "check", *tree, "--data-dir", project / "data")
    assert "nodes" in ran("pageindex", "build", "--data-dir", project / "data")


def test_the_tree_is_built_and_read_without_a_model_or_an_index(tmp_path: Path) -> None:
    """The workspace's embedder can't be had, so that any embedding would be an error."""
    write_pages(tmp_path / "docs")
    data = tmp_path / "data"
    data.mkdir()
    config = data / "branchrank.toml"
    config.write_text('corpus = "../docs"\n[index]\nembedder = "./missing-model"\n')
    words = ("--data-dir", data)
    nodes = data / "pageindex" / "nodes.jsonl"
    for _ in range(2):  # from nothing, and over an earlier tree
        assert ran("pageindex", "build", *words).startswith(f"{nodes}: ")
    built = nodes.read_bytes()
    assert ran("pageindex", "show", *words).startswith("docs")
    ran("pageindex", "check", *words)
    ran("pageindex", "export", "guide/brewing.md", tmp_path / "brewing.json", *words)
    assert not (data / "indexes").exists()
    assert not (data / "hybrid").exists()

    ran("index", *words, "--embedder", "fake", "--quiet")
    assert nodes.resolve().is_relative_to(data / "indexes"), "the index's own tree"
    assert nodes.read_bytes() == built
    (tmp_path / "docs" / "new.md").write_text("# New page\n\nText.\n")
    ran("pageindex", "build", *words)
    assert "New page" in nodes.read_text()
    assert len(list(data.glob("indexes/*/0*"))) == 1, "no index was built again"
    ran("index", *words, "--quiet")
    assert nodes.resolve().is_relative_to(data / "indexes")


def test_the_folders_that_ci_caches_save_the_embeddings(tmp_path: Path) -> None:
    """Another checkout with the committed branchrank.toml and the folders of docs/gate.md."""
    page = (Path(__file__).parents[2] / "docs" / "gate.md").read_text()
    [paths] = re.findall(r"actions/cache@v4\n        with:\n          path: \|\n((?: {12}\S+\n)+)", page)
    first, second = tmp_path / "first", tmp_path / "second"
    for checkout in (first, second):
        write_pages(checkout / "docs")
    ran("index", first / "docs", "--data-dir", first / "data", "--embedder", "fake", "--quiet")
    for path in (*paths.split(), "data/branchrank.toml"):
        (second / path).parent.mkdir(parents=True, exist_ok=True)
        if (first / path).is_symlink():
            (second / path).symlink_to((first / path).readlink())
        elif (first / path).is_dir():
            shutil.copytree(first / path, second / path, symlinks=True)
        else:
            shutil.copy(first / path, second / path)
    words = ("--data-dir", second / "data", "--quiet")
    result = invoke("retrieve", "tea", *words)
    assert result.exit_code == 0, result.output
    assert "building" not in result.stderr
    assert "up to date" in ran("index", *words)
    (second / "docs" / "new.md").write_text("# New page\n\nText.\n")
    assert "1 text embedded" in ran("index", *words)


def test_a_tree_is_not_built_over_the_users_own_nodes(tmp_path: Path) -> None:
    write_pages(tmp_path / "docs")
    words = ("--data-dir", tmp_path / "data")
    own = tmp_path / "data" / "pageindex" / "nodes.jsonl"
    ran("index", tmp_path / "docs", *words, "--embedder", "none", "--quiet")
    content = own.read_bytes()
    own.unlink()
    own.write_bytes(content)
    ran("index", *words, "--nodes", own, "--quiet")
    result = invoke("pageindex", "build", *words)
    assert result.exit_code == 2
    assert "--output" in result.stderr
    assert not own.is_symlink()
    assert own.read_bytes() == content
    assert "Brewing" in ran("pageindex", "show", *words)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [("line_end", 999, "999"), ("parent_id", "nobody", "nobody"), ("own_line_end", 1, "")],
)
def test_check_reports_the_problems_of_a_tree(
    project: Path, tmp_path: Path, key: str, value: object, reason: str
) -> None:
    nodes = json_lines(project / "data" / "pageindex" / "nodes.jsonl")
    changed = [{**node, key: value} if node["id"] == "guide/brewing.md#errors" else node for node in nodes]
    path = write_lines(tmp_path / "nodes.jsonl", changed)
    result = invoke("pageindex", "check", path, "--data-dir", project / "data")
    assert result.exit_code == 4
    assert "guide/brewing.md" in result.output
    assert reason in result.output
    assert "fix: " in result.stderr


def test_check_names_the_documents_of_a_tree_that_the_corpus_lacks(project: Path, tmp_path: Path) -> None:
    text = (project / "data" / "pageindex" / "nodes.jsonl").read_text()
    path = tmp_path / "nodes.jsonl"
    path.write_text(text.replace("guide/brewing.md", "guide/gone.md"))
    result = invoke("pageindex", "check", path, "--data-dir", project / "data")
    assert result.exit_code == 3
    assert "'guide/gone.md': the corpus has no such document" in result.output
    assert "None" not in result.output


def test_export_and_import_keep_the_sections(project: Path, tmp_path: Path) -> None:
    data = ("--data-dir", project / "data")
    ran("pageindex", "export", "guide/brewing.md", tmp_path / "brewing.json", *data)
    written = json.loads((tmp_path / "brewing.json").read_text())
    assert "Choosing a temperature" in json.dumps(written)
    ran("pageindex", "import", tmp_path / "brewing.json", "guide/brewing.md", tmp_path / "nodes.jsonl", *data)
    spans = {
        node["title"]: (node["line_start"], node["own_line_end"])
        for node in json_lines(tmp_path / "nodes.jsonl")
        if node["kind"] == "section"
    }
    ours = {
        node["title"]: (node["line_start"], node["own_line_end"])
        for node in json_lines(project / "data" / "pageindex" / "nodes.jsonl")
        if node["kind"] == "section" and node["source"] == "guide/brewing.md"
    }
    assert {title: ours[title] for title in spans if title in ours} == {
        title: span for title, span in spans.items() if title in ours
    }
    assert set(ours) <= set(spans)


def test_an_import_of_something_else_is_refused(project: Path, tmp_path: Path) -> None:
    for content in ("", "{", "[]", '{"structure": 3}', "[" * 100_000):
        (tmp_path / "x.json").write_text(content)
        words = (tmp_path / "x.json", "guide/brewing.md", tmp_path / "nodes.jsonl")
        result = invoke("pageindex", "import", *words, "--data-dir", project / "data")
        assert result.exit_code == 3, (content[:10], result.output)
        assert not (tmp_path / "nodes.jsonl").exists()


def test_questions_reanchor_finds_moved_gold(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    data = ("--data-dir", project / "data")
    path = project / "data" / "benchmark" / "questions.jsonl"
    run = (
        "benchmark",
        *data,
        "--predictor",
        "bm25",
        "--reports",
        tmp_path / "reports",
        "--latency-sample",
        0,
    )
    assert invoke(*run).exit_code == 0
    ran("questions", "reanchor", *data)
    assert invoke(*run).exit_code == 0
    undigested, digested = sorted((tmp_path / "reports").iterdir())
    assert "identical hits" in ran("compare", digested, undigested)
    lines = {"guide/cleaning.md": (project / "docs" / "guide" / "cleaning.md").read_text().splitlines()}
    asked = load_questions(path)
    place = [each.id for each in asked].index("stains")
    choices: tuple[tuple[int, int, Choice], ...] = ((3, 3, "yes"), (5, 7, "no"), (1, 3, "partly"))
    for first, last, choice in choices:
        span = Span(source="guide/cleaning.md", line_start=first, line_end=last)
        asked[place] = with_label(asked[place], span, choice, lines, annotator="ada")
    write_questions(path, asked)
    page = project / "docs" / "guide" / "cleaning.md"
    page.write_text(page.read_text().replace("# Cleaning\n", "# Cleaning\n\nAn added line.\n"))
    checked = invoke("questions", "check", *data)
    assert checked.exit_code == 3
    assert "'stains'" in checked.stdout
    assert "branchrank questions reanchor" in checked.stderr
    refused = invoke(*run)
    assert (refused.exit_code, "branchrank questions reanchor" in refused.stderr) == (3, True)
    assert "question 'stains': lines 7-7 of guide/cleaning.md have changed" in refused.stderr
    assert len(list((tmp_path / "reports").iterdir())) == 2
    said = ran("questions", "reanchor", *data)
    assert "stains: guide/cleaning.md:7 -> guide/cleaning.md:9" in said
    assert "stains, label: guide/cleaning.md:5 -> guide/cleaning.md:7" in said
    assert "guide/cleaning.md:1-3 has changed" in said
    moved = {line["id"]: line for line in json_lines(path)}
    assert (moved["stains"]["answer_line_start"], moved["stains"]["answer_line_end"]) == (9, 9)
    labels = [(each["line_start"], each["line_end"], each.get("gold")) for each in moved["stains"]["labels"]]
    assert labels == [(5, 5, [5, 5]), (7, 9, None), (1, 3, None)]
    assert moved["upgrade"]["reviewed_by"] == "somebody"
    assert invoke("questions", "check", *data).exit_code == 0
    assert invoke(*run).exit_code == 0
    page.write_text("\n".join(["Other text.", *page.read_text().splitlines()[1:8], "Use another thing."]))
    for words in (("questions", "check", *data), run, ("questions", "reanchor", *data)):
        refused = invoke(*words)
        assert (refused.exit_code, "questions reanchor" in refused.stderr) == (3, False)
        assert f"in {path}, and delete its `answer_digest`" in refused.stderr


def test_corpora_are_listed_without_fetching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    said = ran("corpus", "list")
    assert "django" in said
    assert "symfony" in said


def test_settings_lists_every_setting_with_range_and_origin(project: Path) -> None:
    said = ran("settings", "--data-dir", project / "data")
    for part in PARTS:
        assert f"[{part.section}]" in said
        for setting in settings_of(part):
            assert setting.flag in said
            assert f"  {setting.name} = " in said
    assert "candidate_cap = 30  (default)" in said
    assert "20 to 50" in said
    assert f"embedder = 'fake:64'  ({project / 'data' / 'branchrank.toml'})" in said


def test_settings_are_listed_even_where_some_are_wrong(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    path = project / "data" / "branchrank.toml"
    path.write_text(path.read_text() + "\n[local]\nrrf_k = 0\n")
    result = invoke("settings", "--data-dir", project / "data")
    assert result.exit_code == 2
    assert "local.rrf_k = 0" in result.stderr
    for part in PARTS:
        assert f"[{part.section}]" in result.stdout
    assert "rrf_k = 60  (default)" in result.stdout
