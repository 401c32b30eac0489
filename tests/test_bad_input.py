"""Bad input through the commands: whatever a corpus, a question file or a disk is like, one is told so.

The parts have their own tests of the same kind: readers (``tests/corpus``), indexes on bad disks, killed and
rival builds (``tests/index/test_index_faults.py``).
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from support.commands import QUESTIONS, benchmark, invoke, make_project, table, write_lines
from support.worlds import PAGES, write_pages

from branchrank.index.generations import build_lock
from branchrank.index.workspace_folder import configure

FAKE = ("--embedder", "fake:64", "--vector-store", "exact")


def indexed(folder: Path, *words: object):
    """``branchrank index`` over ``folder/docs``."""
    return invoke("index", folder / "docs", "--data-dir", folder / "data", *FAKE, *words)


def put(folder: Path, source: str, content: str | bytes) -> Path:
    path = folder / "docs" / source
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def found(folder: Path, query: str) -> list[dict]:
    """The hits of a query, best first."""
    result = invoke("retrieve", "--data-dir", folder / "data", "--json", "--top-k", 20, query)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["hits"]


def checked(folder: Path) -> None:
    """The tree's links and spans are right for the corpus as it is."""
    result = invoke("pageindex", "check", "--data-dir", folder / "data")
    assert result.exit_code == 0, result.output


CORPORA: dict[str, dict[str, str] | str | None] = {
    "missing": None,
    "a file": "# not a folder\n",
    "empty": {},
    "other files": {"logo.png": "x"},
    "hidden files": {".hidden/a.md": "# A\n"},
    "empty files": {"empty.md": ""},
}


@pytest.mark.parametrize("kind", CORPORA)
def test_a_corpus_without_documents_is_refused(tmp_path: Path, kind: str) -> None:
    files = CORPORA[kind]
    if isinstance(files, str):
        (tmp_path / "docs").write_text(files)
    elif files is not None:
        (tmp_path / "docs").mkdir()
        for source, content in files.items():
            put(tmp_path, source, content)
    result = indexed(tmp_path)
    assert result.exit_code == 3
    assert str(tmp_path / "docs") in result.stderr
    assert "fix: " in result.stderr
    assert not [path for path in (tmp_path / "data" / "indexes").rglob("*.json*") if path.is_file()]


def test_odd_files_are_read_or_left_out_and_reported(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "# Kettle\n\nBoils water.\n")
    put(tmp_path, "cafe.rst", "Café\n====\n\nDéjà vu à la crème.\n".encode("latin-1"))
    put(tmp_path, "image.md", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)))
    for number, content in enumerate(("", "\n\n\n", "   ", "\ufeff")):
        put(tmp_path, f"empty{number}.md", content)
        put(tmp_path, f"empty{number}.rst", content)
    docs, secret = tmp_path / "docs", tmp_path / "secret.md"
    secret.write_text("# Secret\n\nswordfish\n")
    os.mkfifo(docs / "pipe.md")
    (docs / "folder.md").mkdir()
    for name, target in (
        ("out.md", secret),
        ("outside", tmp_path),
        ("loop", docs),
        ("gone.md", "nothing.md"),
    ):
        (docs / name).symlink_to(target)
    result = indexed(tmp_path)
    assert result.exit_code == 0
    assert "note: 'image.md': skipped" in result.stderr
    assert "cafe.rst" in result.stderr
    assert "out.md" in result.stderr
    hits = found(tmp_path, "crème water swordfish secret")
    sources = {hit["source"] for hit in hits}
    assert {source for source in sources if not source.startswith("empty")} == {"a.md", "cafe.rst"}
    assert not hits[0]["source"].startswith("empty")
    [cafe] = [hit for hit in hits if hit["source"] == "cafe.rst"]
    assert (cafe["line_start"], cafe["line_end"]) == (1, 4)
    assert "Déjà vu" in cafe["text"]
    assert "swordfish" not in (tmp_path / "data" / "chunks.jsonl").read_text()
    checked(tmp_path)


def test_rst_nested_300_deep(tmp_path: Path) -> None:
    quotes = "".join("  " * depth + f"level{depth} item\n\n" for depth in range(300))
    lists = "".join("  " * depth + f"* entry{depth}\n\n" for depth in range(300))
    put(tmp_path, "deep.rst", f"Deep\n====\n\n{quotes}\nLists\n-----\n\n{lists}\nEnd\n---\n\nwombat\n")
    put(tmp_path, "headings.md", "".join(f"{'#' * (n % 6 + 1)} Heading {n}\n\n" for n in range(300)))
    assert indexed(tmp_path).exit_code == 0
    assert {hit["source"] for hit in found(tmp_path, "wombat") if "wombat" in hit["text"]} == {"deep.rst"}
    checked(tmp_path)


def test_odd_names_are_kept(tmp_path: Path) -> None:
    for name in ("with space.md", "=cmd.md", "ünï.md", "a#b.md", "x@1.md", "-flag.md", "new\nline.md"):
        put(tmp_path, name, f"# Kettle\n\nBoils water in {name!r}.\n")
    assert indexed(tmp_path).exit_code == 0
    assert {hit["source"] for hit in found(tmp_path, "water")} == {
        path.name for path in (tmp_path / "docs").iterdir()
    }
    checked(tmp_path)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("bad"))


BAD_QUESTIONS = {
    "a bad line": ("{nope", "questions.jsonl:9: "),
    "an unknown gold source": (
        json.dumps({**QUESTIONS[0], "id": "x", "source_file": "gone.md"}),
        "question 'x': the corpus has no file 'gone.md'",
    ),
}


@pytest.mark.parametrize("kind", BAD_QUESTIONS)
def test_a_wrong_question_file_ends_the_benchmark_before_it_begins(
    project: Path, tmp_path: Path, kind: str
) -> None:
    line, reason = BAD_QUESTIONS[kind]
    path = write_lines(tmp_path / "questions.jsonl")
    with path.open("a") as stream:
        stream.write(line + "\n")
    words = ("--predictor", "local", "--questions", path, "--reports", tmp_path / "reports")
    result = invoke("benchmark", "--data-dir", project / "data", *words)
    assert result.exit_code == 3
    assert reason in result.stderr
    assert "fix: " in result.stderr
    assert not (tmp_path / "reports").exists()


def test_with_only_unanswerable_questions_the_rates_are_empty(project: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "questions.jsonl", [QUESTIONS[6]])
    made = benchmark(project, "--predictor", "local", "--questions", path, reports=tmp_path / "reports")
    [row] = table(made / "summary.csv")
    assert (row["questions"], row["answerable_questions"], row["strict_hit@1"]) == ("1", "0", "")


@pytest.mark.parametrize(
    "damage",
    ["changed", pytest.param("cut", marks=pytest.mark.full), pytest.param("gone", marks=pytest.mark.full)],
)
def test_a_damaged_index_is_rebuilt(tmp_path: Path, damage: str) -> None:
    """Whichever file it is; another time in ``build.json`` changes nothing."""
    project = make_project(tmp_path)
    whole = found(project, "remove stains")
    [manifest] = (project / "data" / "indexes").glob("*/current/manifest.json")
    names = [*json.loads(manifest.read_text())["digests"], "manifest.json", "build.json", "modified.json"]
    assert len(names) == 11
    for name in names:
        path = manifest.parent.resolve() / name
        content = path.read_bytes()
        middle = len(content) // 2
        if damage == "gone":
            path.unlink()
        else:
            changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
            path.write_bytes(content[:middle] if damage == "cut" else changed)
        result = invoke("retrieve", "--data-dir", project / "data", "--json", "--top-k", 20, "remove stains")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["hits"] == whole
        if name not in ("build.json", "modified.json") or damage != "changed":
            assert "building it" in result.stderr, name


def refuse_writes(monkeypatch: pytest.MonkeyPatch, code: int, below: Path) -> None:
    """From now on the disk below a folder refuses to be written, as a read-only or full one does."""
    real = os.open

    def guarded(path: object, flags: int, *rest: object, **named: object) -> int:
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes and isinstance(path, str | os.PathLike) and str(below) in os.fspath(path):
            raise OSError(code, os.strerror(code), os.fspath(path))
        return real(path, flags, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", guarded)


@pytest.mark.parametrize(
    ("code", "said", "remedy"),
    [
        (errno.EROFS, "Read-only file system", "--data-dir"),
        (errno.ENOSPC, "No space left on device", "free some space"),
        (errno.EACCES, "Permission denied", "--data-dir"),
    ],
)
def test_a_disk_error_is_reported_with_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str, remedy: str
) -> None:
    project = make_project(tmp_path)
    put(project, "new.md", "# New\n\nwombat\n")
    refuse_writes(monkeypatch, code, project / "data")
    result = invoke("retrieve", "--data-dir", project / "data", "wombat")
    assert result.exit_code == 8
    assert said in result.stderr
    assert remedy in result.stderr
    monkeypatch.undo()
    assert found(project, "wombat")[0]["source"] == "new.md"


def test_an_index_on_a_read_only_disk_still_answers(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_writes(monkeypatch, errno.EROFS, project / "data")
    # With weights that the index does not contain, and that cannot be stored.
    for words in ((), ("--bm25-k1", 0.3)):
        result = invoke("retrieve", "--data-dir", project / "data", *words, "remove stains")
        assert result.exit_code == 0, result.output


def test_reports_on_a_disk_that_refuses(project: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    reports.write_text("a file where the folder should be")
    words = ("--predictor", "local", "--latency-sample", 0, "--reports", reports)
    result = invoke("benchmark", "--data-dir", project / "data", *words)
    assert result.exit_code == 2
    assert "reports" in result.stderr


def test_two_builds_at_once(tmp_path: Path) -> None:
    write_pages(tmp_path / "docs")
    configure(tmp_path / "data", corpus=tmp_path / "docs", settings={"index.embedder": "fake:64"})
    with build_lock(tmp_path / "data"):
        for words in (("retrieve", "tea"), ("index",), ("benchmark", "--predictor", "local")):
            path = write_lines(tmp_path / "questions.jsonl")
            more = ("--questions", path) if words[0] == "benchmark" else ()
            result = invoke(*words, "--data-dir", tmp_path / "data", *more)
            assert result.exit_code == 4, result.output
            assert "another process" in result.stderr
    assert found(tmp_path, "tea")


def test_identical_pages_are_indexed_separately(tmp_path: Path) -> None:
    """The same page many times: every chunk has its own id, and ties are broken the same way every time."""
    for number in range(12):
        put(tmp_path, f"p{number:02d}.md", PAGES["guide/cleaning.md"])
    assert indexed(tmp_path).exit_code == 0
    first = found(tmp_path, "baking soda")
    assert first == found(tmp_path, "baking soda")
    sources = [hit["source"] for hit in first if "Baking" in hit["text"]]
    assert sources == sorted(sources)
