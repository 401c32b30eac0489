"""Discovery: one order, inside the root, and a reason for everything left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from branchrank.documents.document import READ_AS_MDX
from branchrank.documents.loading import discover, load_corpus


def write(root: Path, *names: str, content: bytes = b"text\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def sources(root: Path, *exclude: str) -> list[str]:
    return [file.source for file in discover(root, exclude).files]


def test_documents_come_in_the_order_of_their_sources(tmp_path: Path) -> None:
    write(tmp_path, "b.rst", "a/z.md", "a/b/c.mdx", "a.txt", "x.rst.inc", "UP.RST", "no.py", "inc", "a-b.md")
    found = discover(tmp_path)
    assert [file.source for file in found.files] == [
        "UP.RST", "a-b.md", "a.txt", "a/b/c.mdx", "a/z.md", "b.rst", "x.rst.inc",
    ]  # fmt: skip
    assert found.notes == (
        "indexed 7; skipped 2: 1 .py (source code; to index it: --code), 1 without a suffix",
    )
    write(tmp_path, *(f"x.{number:02}" for number in range(30)))
    assert discover(tmp_path).notes[0].endswith(", 1 .23, 1 .24, 7 of 7 other kinds")
    assert found.files[0].size == 5
    assert found.files[0].mtime_ns == (tmp_path / "UP.RST").stat().st_mtime_ns


def test_hidden_and_excluded_paths_are_left_out(tmp_path: Path) -> None:
    write(
        tmp_path, ".git/x.md", ".y.md", "docs/a.md", "docs/results/r.md", "docs/results.md", "old/drafts/d.md"
    )
    assert sources(tmp_path, "docs/results/", "*/drafts") == ["docs/a.md", "docs/results.md"]


def test_links_are_not_followed_regardless_of_their_target(tmp_path: Path) -> None:
    root = tmp_path / "corpus"
    write(root, "a.md", "sub/b.md")
    write(tmp_path, "secret.md")
    (root / "loop").symlink_to(root)
    (root / "sub" / "up").symlink_to("..")
    (root / "out.md").symlink_to(tmp_path / "secret.md")
    (root / "self.md").symlink_to("self.md")
    (root / "folder").symlink_to(tmp_path)
    found = discover(root)
    assert [file.source for file in found.files] == ["a.md", "sub/b.md"]
    assert found.notes[0].startswith("indexed 2; skipped 5: 3 without a suffix (")
    assert ", 2 .md" in found.notes[0]
    assert [note.split(":")[0] for note in found.notes[1:]] == [
        "'folder'", "'loop'", "'out.md'", "'self.md'", "'sub/up'",
    ]  # fmt: skip
    assert all("a symbolic link" in note for note in found.notes)


def test_a_name_that_is_not_utf_8_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.md", os.fsdecode(b"bad\xff.md"))
    found = discover(tmp_path)
    assert [file.source for file in found.files] == ["a.md"]
    assert [note.split(":")[0] for note in found.notes] == ["indexed 1; skipped 1", "'bad\\udcff.md'"]
    assert all("UTF-8" in note for note in found.notes)


def test_a_huge_file_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchrank.documents.loading.MAX_FILE_BYTES", 10)
    write(tmp_path, "a.md")
    write(tmp_path, "b.md", content=b"x" * 11)
    assert sources(tmp_path) == ["a.md"]


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real", "a.md")
    (tmp_path / "link").symlink_to("real")
    assert sources(tmp_path / "link") == ["a.md"]


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


def test_a_corpus_has_one_note_for_all_markdown_that_is_read_as_mdx(tmp_path: Path) -> None:
    for name in ("a.md", "b.md", "c.mdx", "d.md"):
        (tmp_path / name).write_text("text\n" if name == "d.md" else "import A from 'a'\n\ntext\n")
    assert load_corpus(tmp_path).notes == (f"2 files, such as 'a.md', are {READ_AS_MDX}",)
    (tmp_path / "b.md").unlink()
    assert load_corpus(tmp_path).notes == (f"'a.md': {READ_AS_MDX}",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.rst").write_text("A")
    (tmp_path / "b.rst").write_text("B")
    (tmp_path / "b.rst").chmod(0)
    corpus = load_corpus(tmp_path)
    assert [d.source for d in corpus.documents] == ["a.rst"]
    (note,) = corpus.notes
    assert note.startswith("'b.rst': ")
    assert note.endswith("(permission denied)")
