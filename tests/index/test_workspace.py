"""A workspace's file and names."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.core.errors import UsageError
from branchrank.core.settings import IndexSettings
from branchrank.index.workspace_folder import WorkspaceFolder, configure, index_name, update_config


def test_configure_writes_a_corpus_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    configure(tmp_path / "data", corpus=tmp_path / "docs", settings={"index.embedder": "fake"})
    assert (tmp_path / "data" / "branchrank.toml").read_text() == (
        'corpus = "../docs"\n\n[index]\nembedder = "fake"\n'
    )
    workspace = WorkspaceFolder.open(tmp_path / "data", environment={})
    assert workspace.corpus_root == (tmp_path / "docs").resolve()
    assert workspace.corpus_name == "docs"
    assert workspace.index_settings.embedder == "fake"
    assert workspace.is_default_index


def test_configure_keeps_comments_and_order_and_other_keys(tmp_path: Path) -> None:
    path = tmp_path / "branchrank.toml"
    path.write_text(
        "# mine\ncorpus = 'a'  # where\n\n[index]\n# model\nembedder = 'x'\nchunk_tokens = 128\n\n"
        "[local]\nrrf_k = 5\n"
    )
    update_config(path, {"corpus": "b", "index.embedder": "fake", "local.bm25_top_n": 7, "bm25.k1": 1.5})
    assert path.read_text() == (
        '# mine\ncorpus = "b"  # where\n\n[index]\n# model\nembedder = "fake"\nchunk_tokens = 128\n\n'
        "[local]\nrrf_k = 5\nbm25_top_n = 7\n\n[bm25]\nk1 = 1.5\n"
    )


@pytest.mark.parametrize(
    ("content", "key", "value", "after"),
    [
        ('exclude = [\n  "a",\n]\n', "exclude", ("b",), 'exclude = ["b"]\n'),
        (
            "index = { embedder = 'x' } # one line\n",
            "index.embedder",
            "y",
            'index = { embedder = "y" } # one line\n',
        ),
        ("index.embedder = 'x'\n", "index.embedder", "y", 'index.embedder = "y"\n'),
        ("[index]\nembedder = 'x'\n", "corpus", "docs", "corpus = \"docs\"\n\n[index]\nembedder = 'x'\n"),
    ],
    ids=["several lines", "inline table", "dotted key", "key above tables"],
)
def test_every_way_of_writing_a_value_can_be_changed(
    tmp_path: Path, content: str, key: str, value: object, after: str
) -> None:
    path = tmp_path / "branchrank.toml"
    path.write_text(content)
    update_config(path, {key: value})
    assert path.read_text() == after


def test_a_value_in_the_place_of_a_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "branchrank.toml"
    path.write_text("index = 3\n")
    with pytest.raises(UsageError, match=r"branchrank\.toml: index "):
        update_config(path, {"index.embedder": "fake"})
    assert path.read_text() == "index = 3\n"


keys = st.sampled_from(["corpus", "exclude", "index.embedder", "local.rrf_k", "bm25.b"])
values = st.one_of(
    st.text(max_size=20), st.booleans(), st.integers(0, 999), st.lists(st.text(max_size=5), max_size=3)
)


@given(st.dictionaries(keys, values))
def test_written_settings_are_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, object]
) -> None:
    path = tmp_path_factory.mktemp("toml") / "branchrank.toml"
    for key, value in changes.items():
        update_config(path, {key: value})
    read = tomllib.loads(path.read_text()) if changes else {}
    for key, value in changes.items():
        table, _, name = key.rpartition(".")
        assert (read[table] if table else read)[name] == value


def test_the_index_name_depends_on_the_settings_that_change_vectors() -> None:
    plain = IndexSettings(embedder="org/Some Model", vector_store="exact")
    assert index_name(plain).startswith("org-some-model-256-")
    assert index_name(plain) == index_name(IndexSettings(embedder="org/Some Model", vector_store="chroma"))
    others = [
        IndexSettings(embedder="org-some-model"),
        IndexSettings(embedder="org/Some Model", chunk_tokens=128),
        IndexSettings(embedder="org/Some Model", chunk_overlap=8),
        IndexSettings(embedder="org/Some Model", embedding_revision="abc"),
        IndexSettings(embedder="org/Some Model", embedding_url="http://localhost"),
    ]
    assert len({index_name(plain), *map(index_name, others)}) == 6
    assert "/" not in index_name(IndexSettings(embedder="../../x/../y"))
