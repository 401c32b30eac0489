"""``branchrank adopt``: chunks, vectors and nodes that another program made, from refusal to benchmark."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from support.artifacts import LOADED, MODEL, Planted, make_chroma, paragraphs, state, write_objects
from support.commands import NO_LLM, invoke, json_lines, write_lines
from support.worlds import PAGES, write_pages

from branchrank.core.io import files
from branchrank.index import adopted_files
from branchrank.index.embedders.fake import FakeEmbedder
from branchrank.index.embedding import TOKEN_PROBES
from branchrank.workspace import Workspace

QUERY = "which temperature for green tea"


@pytest.fixture(autouse=True)
def exact_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace makes no collection of its own, which takes longer than the rest."""
    monkeypatch.setenv("BRANCHRANK_INDEX_VECTOR_STORE", "exact")


def make_theirs(folder: Path, **options: Any) -> Path:
    """``folder/docs`` and ``folder/theirs`` with chunks of all kinds of fields and a collection."""
    write_pages(folder / "docs")
    chunks = []
    for number, each in enumerate(paragraphs(PAGES)):
        first, last = each.pop("lines")
        given: dict[str, Any] = dict(each)
        if number % 3 == 0:  # lines, as given by most
            given |= {"line_start": first, "line_end": last}
        elif number % 3 == 1:  # a path with folders in front, lines counted from 0
            path = given.pop("file_path")
            given |= {"source": "local_file", "path": f"./docs/{path}", "start_line": 0, "end_line": 1}
        else:  # in metadata, without lines
            given["metadata"] = {"source": str(folder / "docs" / given.pop("file_path"))}
        chunks.append(given)
    write_objects(folder / "theirs" / "chunks.jsonl", chunks)
    make_chroma(folder / "theirs" / "chroma", paragraphs(PAGES), **options)
    return folder / "theirs"


def adopt(folder: Path, *words: object, embedder: str = "fake:64") -> Result:
    return invoke(
        "adopt",
        folder / "theirs",
        "--data-dir",
        folder / "data",
        "--embedder",
        embedder,
        "--quiet",
        "--corpus",
        folder / "docs",
        *words,
    )


def fix(result: Result) -> list[str]:
    """The words of the command that an error names."""
    (line,) = [line for line in result.stderr.splitlines() if line.strip().startswith("fix: ")]
    words = shlex.split(line.strip().removeprefix("fix: "))
    assert words[0] == "branchrank", line
    return words[1:]


def test_an_adopted_workspace_answers_with_real_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BRANCHRANK_INDEX_VECTOR_STORE")
    theirs = make_theirs(tmp_path)
    before = state(theirs)
    result = adopt(tmp_path)
    assert result.exit_code == 0, result.output
    assert state(theirs) == before
    data = tmp_path / "data"
    expected = {each["id"]: each for each in paragraphs(PAGES)}
    chunks = json_lines(data / "chunks.jsonl")
    found = {each["id"]: (each["source"], each["line_start"], each["line_end"]) for each in chunks}
    assert found == {key: (each["file_path"], *each["lines"]) for key, each in expected.items()}
    assert {each["id"]: each["text"] for each in chunks} == {k: each["text"] for k, each in expected.items()}
    for verb, more in (("retrieve", ()), ("hybrid", ("--no-llm",))):
        answer = invoke(verb, QUERY, "--data-dir", data, "--json", "--quiet", *more)
        assert answer.exit_code == 0, answer.output
        hits = json.loads(answer.stdout)["hits"]
        assert hits
        for hit in hits:
            page = (tmp_path / "docs" / hit["source"]).read_text().split("\n")
            assert hit["text"] == "\n".join(page[hit["line_start"] - 1 : hit["line_end"]])
    write_lines(data / "benchmark" / "questions.jsonl")
    words = ("--data-dir", data, "--reports", tmp_path / "reports", "--quiet", *NO_LLM)
    result = invoke("benchmark", *words, "--predictor", "local", "--predictor", "hybrid")
    assert result.exit_code == 0, result.output
    (rows,) = (tmp_path / "reports").glob("*/rows.jsonl")
    hits = [hit for row in json_lines(rows) for hit in row["hits"]]
    assert {hit["source"] for hit in hits} <= set(PAGES)
    assert all(1 <= hit["line_start"] <= hit["line_end"] for hit in hits)


def test_existing_vectors_are_kept_and_only_a_sample_is_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = make_theirs(tmp_path)
    embedded: list[str] = []
    embed = FakeEmbedder.embed_documents
    chunks = {each["text"] for each in paragraphs(PAGES)}

    def counting(embedder: FakeEmbedder, texts: list[str], *rest: Any) -> Any:
        # Not the section titles that measure the spread of the similarities.
        embedded.extend(text for text in texts if text in chunks or text.partition("\n")[2] in chunks)
        return embed(embedder, texts, *rest)

    monkeypatch.setattr(FakeEmbedder, "embed_documents", counting)
    with Workspace.adopt(
        theirs, tmp_path / "data", corpus=tmp_path / "docs", embedder="fake:64"
    ) as workspace:
        count = len(paragraphs(PAGES))
        assert len(embedded) == 20 + min(TOKEN_PROBES, count)
        adoption = workspace.adoption
        assert adoption is not None
        assert (adoption.chunks, adoption.reused, adoption.embedded, adoption.sampled) == (
            count,
            count,
            0,
            20,
        )
        assert adoption.by_lines == len(range(0, count, 3))
        assert adoption.anchored == count - adoption.by_lines
        assert (adoption.left_out, adoption.unconfirmed, adoption.collection) == ((), 0, "docs")
        assert adoption.least_cosine > 0.999
        store = workspace.index.exact_vectors
        expected = embed(MODEL, [each["text"] for each in paragraphs(PAGES)])
        assert np.allclose([store.vector(f"c{n}") for n in range(count)], expected, atol=1e-6)
        assert workspace.index.report.embedded == 0
    # Another embedder makes an index of its own beside it, of the same chunks.
    embedded.clear()
    result = invoke("index", "--data-dir", tmp_path / "data", "--embedder", "fake:32", "--quiet")
    assert result.exit_code == 0, result.output
    assert len(embedded) == count + min(TOKEN_PROBES, count)


def test_vectors_of_another_model_are_refused_and_the_fix_indexes(tmp_path: Path) -> None:
    chunks = paragraphs(PAGES)
    rows = MODEL.embed_documents([each["text"] for each in chunks])
    theirs = make_theirs(tmp_path, vectors=rows[::-1])
    before = state(theirs)
    result = adopt(tmp_path)
    assert result.exit_code == 4
    assert "with fake" in result.stderr
    assert "of 20 sampled texts" in result.stderr
    assert state(theirs) == before
    assert not (tmp_path / "data").exists() or not list((tmp_path / "data").iterdir())
    fixed = invoke(*fix(result))
    assert fixed.exit_code == 0, fixed.output
    assert invoke("retrieve", QUERY, "--data-dir", tmp_path / "data").exit_code == 0


@pytest.mark.parametrize("least", [0.9985, 0.9995])
def test_vectors_agree_from_cosine_999(tmp_path: Path, least: float) -> None:
    rows = MODEL.embed_documents([each["text"] for each in paragraphs(PAGES)]).astype(np.float64)
    beside = np.random.default_rng(1).normal(size=rows.shape)
    beside -= (beside * rows).sum(axis=1, keepdims=True) * rows
    beside /= np.linalg.norm(beside, axis=1, keepdims=True)
    turned = least * rows + np.sqrt(1 - least**2) * beside
    make_theirs(tmp_path, vectors=turned.astype(np.float32))
    assert adopt(tmp_path).exit_code == (0 if least > 0.999 else 4)


def test_vectors_of_another_dimension_or_of_zero_length_are_refused(tmp_path: Path) -> None:
    make_theirs(tmp_path)
    result = adopt(tmp_path, embedder="fake:32")
    assert result.exit_code == 4
    assert "64 dimensions" in result.stderr
    assert "32" in result.stderr
    rows = MODEL.embed_documents([each["text"] for each in paragraphs(PAGES)])
    make_theirs(tmp_path / "zero", vectors=0 * rows)
    assert adopt(tmp_path / "zero").exit_code == 4


def test_chunks_without_a_vector_are_embedded_and_unknown_texts_left_out(tmp_path: Path) -> None:
    theirs = make_theirs(tmp_path)
    objects = json_lines(theirs / "chunks.jsonl")
    more = [
        {"id": "new", "source": "guide/cleaning.md", "text": "Descale the boiler with vinegar every month."},
        {"id": "titled", "text": "A new title\nDescale the boiler with vinegar every month."},
        {"id": "nowhere", "source": "guide/cleaning.md", "text": "a sentence that no page has"},
        {"id": "empty", "source": "guide/cleaning.md", "text": " "},
        {"id": "anywhere", "text": "Baking soda removes tannin stains."},
        {"id": "edited", "path": "install.rst", "text": "rewritten", "line_start": 4, "line_end": 4},
        {
            "id": "moved",
            "path": "guide/cleaning.md",
            "text": "Baking soda removes tannin stains.",
            "line_start": 1,
            "line_end": 1,
        },
        {"id": "gone", "path": "gone.rst", "text": "Gone.", "line_start": 1, "line_end": 1},
    ]
    write_objects(theirs / "chunks.jsonl", [*objects, *more])
    result = adopt(tmp_path)
    assert result.exit_code == 0, result.output
    with Workspace.open(tmp_path / "data") as workspace:
        adoption = workspace.adoption
        assert adoption is not None
        assert [each.partition(":")[0] for each in adoption.left_out] == ["nowhere", "empty", "gone"]
        assert (adoption.unconfirmed, adoption.embedded, adoption.reused) == (1, 2, len(objects) + 3)
        chunks = workspace.index.chunks
        assert chunks["titled"].span == chunks["new"].span
        assert (chunks["anywhere"].source, chunks["anywhere"].line_start) == ("guide/cleaning.md", 7)
        assert (chunks["moved"].line_start, chunks["moved"].line_end) == (7, 7)
        assert (chunks["edited"].line_start, chunks["edited"].line_end) == (4, 4)
        new = workspace.index.exact_vectors.vector("edited")
        assert np.allclose(new, MODEL.embed_documents(["rewritten"])[0], atol=1e-6)
    for key in ("nowhere", "empty", "gone"):
        assert f"left out {key}:" in result.stderr
    assert "left out: 3 chunks" in result.stdout


def test_one_collection_needs_no_name_and_several_need_one(tmp_path: Path) -> None:
    theirs = make_theirs(tmp_path)
    (theirs / "chunks.jsonl").unlink()
    result = adopt(tmp_path)
    assert result.exit_code == 0, result.output
    assert len(json_lines(tmp_path / "data" / "chunks.jsonl")) == len(paragraphs(PAGES))
    make_chroma(theirs / "chroma", paragraphs(PAGES)[:3], name="other")
    result = adopt(tmp_path)
    assert result.exit_code == 2
    assert "docs, other" in result.stderr
    result = adopt(tmp_path, "--collection", "dcos")
    assert result.exit_code == 2
    assert "did you mean `docs`" in result.stderr
    result = adopt(tmp_path, "--collection", "other")
    assert result.exit_code == 0, result.output
    assert len(json_lines(tmp_path / "data" / "chunks.jsonl")) == 3


def test_chunks_alone_are_placed_and_embedded(tmp_path: Path) -> None:
    page = "# A\n\nsame words\n\nother\n\nsame words\n\nsame words\n"
    write_pages(tmp_path / "docs", {"a.md": page})
    objects = [{"source": "a.md", "text": text} for text in ("other", "same words", "same  WORDS")]
    write_objects(tmp_path / "theirs" / "chunks.jsonl", objects)
    result = adopt(tmp_path)
    assert result.exit_code == 0, result.output
    chunks = json_lines(tmp_path / "data" / "chunks.jsonl")
    assert [(each["id"], each["line_start"]) for each in chunks] == [
        ("a.md@1", 5),
        ("a.md@2", 7),
        ("a.md@3", 9),
    ]


def test_nodes_or_only_their_summaries_are_adopted(tmp_path: Path) -> None:
    write_pages(tmp_path / "docs")
    tree = tmp_path / "tree.jsonl"
    made = invoke(
        "index", tmp_path / "docs", "--data-dir", tmp_path / "own", "--embedder", "fake:64", "--quiet"
    )
    assert made.exit_code == 0
    nodes = json_lines(tmp_path / "own" / "pageindex" / "nodes.jsonl")
    for node in nodes:
        node["summary"] = f"MINE {node['title']}"
    theirs = make_theirs(tmp_path)
    tree = write_objects(theirs / "pageindex" / "nodes.jsonl", nodes)
    assert adopt(tmp_path).exit_code == 0
    kept = tmp_path / "data" / "pageindex" / "nodes.jsonl"
    assert {node["summary"] for node in json_lines(kept)} == {f"MINE {node['title']}" for node in nodes}
    write_objects(
        tree,
        [
            {"node_id": "1", "path": "install.rst", "line_start": 7, "summary": "by line", "line_end": 9},
            {"node_id": "2", "path": "install.rst", "title": "Upgrading", "summary": "by title"},
            {"node_id": "3", "text": "Herbal tea steeps for ten minutes.", "summary": "by text"},
            {"node_id": "4", "path": "install.rst", "title": "Nothing", "summary": "nowhere"},
        ],
    )
    result = adopt(tmp_path)
    assert result.exit_code == 0, result.output
    assert "left out: 0 chunks, 1 node" in result.stdout
    summaries = {node["title"]: node["summary"] for node in json_lines(kept)}
    named = {summaries[title] for title in ("Requirements", "Upgrading", "Herbal tea")}
    assert named == {"by line", "by title", "by text"}
    assert "nowhere" not in summaries.values()


def test_a_stored_embedding_function_is_neither_made_nor_called(tmp_path: Path) -> None:
    make_theirs(tmp_path, embedding_function=Planted())
    LOADED.clear()
    result = adopt(tmp_path)
    assert result.exit_code == 0, result.output
    assert LOADED == []


def test_symbolic_links_and_oversized_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = make_theirs(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text('{"id": "x", "source": "index.rst", "text": "Teapot"}\n')
    link = theirs / "chroma" / "more"
    link.symlink_to(secret)
    result = adopt(tmp_path)
    assert result.exit_code == 4
    assert "symbolic links" in result.stderr
    link.unlink()
    link.symlink_to(tmp_path / "docs", target_is_directory=True)
    assert adopt(tmp_path).exit_code == 4
    link.unlink()
    os.mkfifo(link)
    assert adopt(tmp_path).exit_code == 4
    link.unlink()
    for module, name, value in (
        (files, "MOST_BYTES", 1000),
        (files, "MOST_FILES", 2),
        (adopted_files, "MOST_BYTES", 1000),
        (adopted_files, "MOST_LINE_BYTES", 10),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            assert adopt(tmp_path).exit_code in (3, 4), name
    (theirs / "chunks.jsonl").unlink()
    (theirs / "chunks.jsonl").symlink_to(secret)
    result = adopt(tmp_path)
    assert result.exit_code == 3
    assert "symbolic links" in result.stderr
    assert not (tmp_path / "data" / "branchrank.toml").exists()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("nonsense\n", "chunks.jsonl:1"),
        ('{"id": "a", "text": "x"}\n[]\n', "chunks.jsonl:2"),
        ('{"id": "a", "text": "Teapot"}\n' * 2, "'a' occurs twice"),
        ('{"id": "a", "source": "index.rst", "text": "not there"}\n', "none of the 1 chunks"),
        ("", "none of the 0 chunks"),
    ],
)
def test_a_wrong_chunks_file_is_refused_naming_the_place(tmp_path: Path, content: str, named: str) -> None:
    write_pages(tmp_path / "docs")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "chunks.jsonl").write_text(content)
    result = adopt(tmp_path)
    assert result.exit_code == 3
    assert named in result.stderr
    assert invoke(*fix(result)).exit_code == 0


def test_either_branchrank_toml_can_name_the_documents(tmp_path: Path) -> None:
    theirs = make_theirs(tmp_path)
    words = ("adopt", theirs, "--data-dir", tmp_path / "data", "--embedder", "fake:64", "--quiet")
    result = invoke(*words)
    assert result.exit_code == 2
    command = fix(result)
    assert command[-2:] == ["--corpus", "DOCUMENTS"]
    assert invoke(*command[:-1], tmp_path / "docs").exit_code == 0
    assert invoke(*words).exit_code == 0  # data/branchrank.toml names it now
    (theirs / "branchrank.toml").write_text('corpus = "../docs"\n')
    assert invoke(*words[:3], tmp_path / "other", *words[4:]).exit_code == 0


def test_the_fix_for_a_foreign_folder_as_workspace_is_a_command_that_works(tmp_path: Path) -> None:
    theirs = make_theirs(tmp_path)
    before = state(theirs)
    embedder = ("--embedder", "fake:64", "--quiet")
    adopting = ("adopt", theirs, "--corpus", tmp_path / "docs")
    commands = []
    for words, data, code in (
        (("index", tmp_path / "docs"), theirs, 4),
        (("retrieve", QUERY), theirs, 3),
        (adopting, theirs, 2),
        (adopting, theirs / "x", 2),
    ):
        refused = invoke(*words, "--data-dir", data, *embedder)
        assert refused.exit_code == code
        commands.append(fix(refused))
    assert state(theirs) == before
    for number, command in enumerate(commands):
        words = [str(tmp_path / "docs") if word == "DOCUMENTS" else word for word in command]
        result = invoke(*words)
        assert result.exit_code == 0, (number, words, result.output)
        data = words[words.index("--data-dir") + 1]
        answer = invoke("retrieve", QUERY, "--data-dir", data, "--json", "--quiet")
        assert json.loads(answer.stdout)["hits"][0]["source"] == "guide/brewing.md"
    assert state(theirs) == before
    refused = invoke("adopt", data, "--data-dir", tmp_path / "again", *embedder)
    assert refused.exit_code == 2
    assert fix(refused)[:2] == ["retrieve", "QUERY"]


def test_after_an_edit_of_the_documents_the_folder_is_adopted_again(tmp_path: Path) -> None:
    make_theirs(tmp_path)
    assert adopt(tmp_path).exit_code == 0
    page = tmp_path / "docs" / "guide" / "cleaning.md"
    page.write_text("# News\n\nAdded.\n\n" + page.read_text())
    refused = invoke("index", "--data-dir", tmp_path / "data", "--quiet")
    assert refused.exit_code == 4
    result = invoke(*fix(refused))
    assert result.exit_code == 0, result.output
    moved = next(
        each
        for each in json_lines(tmp_path / "data" / "chunks.jsonl")
        if each["text"].startswith("Baking soda")
    )
    assert moved["line_start"] == 11
