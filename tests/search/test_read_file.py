"""read_file: texts, error codes, and 500 ways out that lead nowhere."""

import os
from pathlib import Path

import pytest
from support.traversal import traversals

from branchrank.core.io.files import open_beneath
from branchrank.search.files.read_file import SIZE_LIMIT, FileReader, FileRefused

SECRET = "TOP-SECRET-CANARY"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An allowed folder with a guide in it; a sibling with a longer name holds a secret."""
    allowed = tmp_path / "docs"
    (allowed / "sub").mkdir(parents=True)
    (allowed / "guide.rst").write_text("Gruß\n", encoding="utf-8")
    (allowed / "sub" / "page.md").write_text("page\n")
    sibling = tmp_path / "docs-private"
    sibling.mkdir()
    (sibling / "secret.txt").write_text(SECRET)
    (tmp_path / "secret.txt").write_text(SECRET)
    return allowed


def read_file(path: str, folders: list[Path]) -> str:
    """The text or the error of a file below allowed folders, of which none is indexed."""
    try:
        return FileReader(folders[0], (), folders).text(path)
    except FileRefused as refusal:
        return str(refusal)


def code(message: str) -> str:
    assert message.startswith("[ERROR: "), message
    return message.removeprefix("[ERROR: ").partition("]")[0]


def test_a_text_is_returned_by_relative_and_absolute_path(root: Path) -> None:
    assert read_file("guide.rst", [root]) == "Gruß\n"
    assert read_file(str(root / "guide.rst"), [root]) == "Gruß\n"
    assert read_file("sub/../guide.rst", [root]) == "Gruß\n"
    assert read_file("./sub//page.md", [root]) == "page\n"


def test_an_allowed_folder_may_be_named_through_a_link(root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    assert read_file(str(alias / "guide.rst"), [alias]) == "Gruß\n"
    assert read_file(str(root / "guide.rst"), [alias]) == "Gruß\n"
    assert FileReader(alias, ()).folders == (root.resolve(),)


def test_each_refusal_has_its_code(root: Path) -> None:
    (root / "large.txt").write_text("x" * (SIZE_LIMIT + 1))
    (root / "binary").write_bytes(b"\xff\xff")
    (root / "nul.txt").write_bytes(b"a\0b")
    expected = {
        "missing.rst": "NOT_FOUND",
        "guide.rst/below": "NOT_FOUND",
        "x" * 5000: "NOT_FOUND",
        "a\ud800": "NOT_FOUND",
        "sub": "NOT_A_FILE",
        "": "NOT_A_FILE",
        "large.txt": "TOO_LARGE",
        "binary": "NOT_TEXT",
        "nul.txt": "NOT_TEXT",
        "../secret.txt": "ACCESS_DENIED",
        "../docs-private/secret.txt": "ACCESS_DENIED",
        "../does-not-exist": "ACCESS_DENIED",
        "/etc/passwd": "ACCESS_DENIED",
        "guide.rst\0.png": "ACCESS_DENIED",
    }
    assert {path: code(read_file(path, [root])) for path in expected} == expected


def test_a_file_that_starts_like_an_error_is_returned_as_text(root: Path) -> None:
    (root / "odd.txt").write_text("[ERROR: NOT_FOUND]")
    assert FileReader(root, ["odd.txt"]).text("odd.txt") == "[ERROR: NOT_FOUND]"


def test_below_the_corpus_only_indexed_files_are_read(root: Path) -> None:
    (root / ".env").write_text(SECRET)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text(SECRET)
    (root / "sub" / ".hidden.md").write_text(SECRET)
    (root / "drafts").mkdir()
    (root / "drafts" / "page.md").write_text(SECRET)
    (root / "script.py").write_text(SECRET)
    reader = FileReader(root, ["guide.rst", "sub/page.md"])
    assert reader.text("sub/page.md") == reader.text(str(root / "sub" / "page.md")) == "page\n"
    denied = [".env", ".git/config", ".git", ".missing", "sub/.hidden.md", "drafts/page.md", "script.py"]
    for path in [*denied, *(str(root / path) for path in denied), "sub/../.env", "./script.py"]:
        with pytest.raises(FileRefused) as refused:
            reader.text(path)
        assert refused.value.code == "ACCESS_DENIED", path
        assert str(root.resolve()) in str(refused.value)
    for path, expected in {"missing.md": "NOT_FOUND", "sub": "NOT_A_FILE"}.items():
        with pytest.raises(FileRefused) as refused:
            reader.text(path)
        assert refused.value.code == expected


def test_an_allowed_folder_is_readable_except_for_hidden_files(root: Path) -> None:
    (root / "drafts").mkdir()
    (root / "drafts" / "page.md").write_text("draft")
    (root / "drafts" / ".env").write_text(SECRET)
    reader = FileReader(root, ["guide.rst"], [root / "drafts"])
    assert reader.text("page.md") == reader.text(str(root / "drafts" / "page.md")) == "draft"
    assert reader.text("drafts/page.md") == "draft"
    with pytest.raises(FileRefused, match="hidden"):
        reader.text("drafts/.env")


def test_links_devices_fifos_and_sockets_are_denied(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "secret.txt")
    (root / "inner").symlink_to(root / "guide.rst")
    (root / "loop").symlink_to(root / "loop")
    (root / "folder").symlink_to(root.parent)
    (root / "device").symlink_to("/dev/zero")
    os.mkfifo(root / "fifo")
    for path in ("link", "inner", "loop", "folder/secret.txt", "device", "fifo"):
        assert code(read_file(path, [root])) == "ACCESS_DENIED", path
    assert code(read_file("zero", [Path("/dev")])) == "ACCESS_DENIED"


def test_no_traversal_payload_reads_anything_outside(root: Path) -> None:
    payloads = traversals("secret.txt", "docs-private/secret.txt", str(root.parent / "secret.txt"))
    payloads += [f"{root}/{payload}" for payload in payloads]
    assert len(payloads) >= 1000
    for payload in payloads:
        answer = read_file(payload, [root])
        assert code(answer) in {"ACCESS_DENIED", "NOT_FOUND", "NOT_A_FILE"}, payload
        assert SECRET not in answer


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", "sub/../guide.rst", "sub//page.md", "./x", ""]
)
def test_open_beneath_refuses_paths_that_are_not_plain_names(root: Path, path: str) -> None:
    with pytest.raises(PermissionError):
        open_beneath(root, path)


def test_no_descriptor_leaks(root: Path) -> None:
    os.mkfifo(root / "fifo")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("guide.rst", "missing", "sub", "fifo", "sub/page.md", "guide.rst/x", "../secret.txt"):
        read_file(path, [root])
    assert len(os.listdir("/proc/self/fd")) == before
