"""Loading: the same corpus from the same bytes, and notes instead of failures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from branchrank.corpus.loading import corpus_digest, load_corpus
from branchrank.corpus.reading import is_document, read_document
from branchrank.errors import CorpusError


def test_a_corpus_is_its_documents_in_order_with_a_digest_of_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "b.rst").write_text("B\n=\n")
    (tmp_path / "a.txt").write_text("A\n=\n")
    told: list[tuple[str, int, int]] = []
    corpus = load_corpus(tmp_path, progress=lambda *state: told.append(state))
    assert [(d.source, d.title) for d in corpus.documents] == [("a.txt", "A"), ("b.rst", "B")]
    assert told == [("read", 1, 2), ("read", 2, 2)]

    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "b.rst").write_text("B\n=\n")
    (copy / "a.txt").write_text("A\n=\n")
    (copy / "ignored.py").write_text("x")
    assert load_corpus(copy).digest == corpus.digest
    (copy / "b.rst").rename(copy / "c.rst")
    renamed = load_corpus(copy).digest
    (copy / "c.rst").write_text("C\n=\n")
    assert len({corpus.digest, renamed, load_corpus(copy).digest}) == 3


def test_the_digest_does_not_depend_on_the_order() -> None:
    pairs = [("b", "1"), ("a", "2")]
    assert corpus_digest(pairs) == corpus_digest(pairs[::-1]) != corpus_digest([("a", "1"), ("b", "2")])


def test_odd_files_are_read_or_named(tmp_path: Path) -> None:
    (tmp_path / "latin.rst").write_bytes("é\n=\n".encode("latin-1"))
    (tmp_path / "binary.rst").write_bytes(b"\0\1")
    (tmp_path / "empty.rst").write_bytes(b"")
    (tmp_path / "deep.rst").write_text("".join("  " * n + "* x\n\n" for n in range(300)))
    corpus = load_corpus(tmp_path)
    assert [d.source for d in corpus.documents] == ["deep.rst", "empty.rst", "latin.rst"]
    assert corpus.notes == (
        "'binary.rst': skipped because it is a binary file",
        "'latin.rst': read as Latin-1, because byte 1 is not valid UTF-8",
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.rst").write_text("A")
    (tmp_path / "b.rst").write_text("B")
    (tmp_path / "b.rst").chmod(0)
    corpus = load_corpus(tmp_path)
    assert [d.source for d in corpus.documents] == ["a.rst"]
    assert corpus.notes == ("'b.rst': skipped because it can't be read (permission denied)",)


def test_a_file_that_vanishes_after_discovery_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.rst").write_text("A")

    def gone(root: Path, source: str) -> bytes:
        raise FileNotFoundError(2, "No such file or directory", source)

    monkeypatch.setattr("branchrank.corpus.loading.read_beneath", gone)
    with pytest.raises(CorpusError, match="no document of the corpus"):
        load_corpus(tmp_path)


def test_the_file_suffix_selects_the_reader() -> None:
    assert read_document("a.RST", b"A\n=\n").title == "A"
    assert read_document("a.rst.inc", b"A\n=\n").title == "A"
    assert not is_document("a.inc")
    with pytest.raises(CorpusError, match="its suffix is not one of"):
        read_document("a.pdf", b"")
