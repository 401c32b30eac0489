"""Loading: the same corpus from the same bytes, and notes instead of failures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from branchrank.corpus.loading import load_corpus


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.rst").write_text("A")
    (tmp_path / "b.rst").write_text("B")
    (tmp_path / "b.rst").chmod(0)
    corpus = load_corpus(tmp_path)
    assert [d.source for d in corpus.documents] == ["a.rst"]
    assert corpus.notes == ("'b.rst': skipped because it can't be read (permission denied)",)
