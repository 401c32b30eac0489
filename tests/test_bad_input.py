"""Bad input through the commands: whatever a corpus, a question file or a disk is like, one is told so.

The parts have their own tests of the same kind: readers (``tests/corpus``), indexes on bad disks, killed and
rival builds (``tests/index/test_index_faults.py``).
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import (
    NO_LLM,
    QUESTIONS,
    benchmark,
    invoke,
    json_lines,
    make_project,
    program,
    table,
    write_lines,
)
from support.worlds import PAGES, write_pages

from branchrank.index.generations import build_lock
from branchrank.index.reader import open_index
from branchrank.index.workspace_folder import WorkspaceFolder, configure

FAKE = ("--embedder", "fake:64", "--vector-store", "exact", "--quiet")


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


def test_a_missing_corpus(tmp_path: Path) -> None:
    result = indexed(tmp_path)
    assert result.exit_code == 3
    assert str(tmp_path / "docs") in result.stderr
    assert "fix: " in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_deleted_corpus_is_reported(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    shutil.rmtree(project / "docs")
    result = invoke("retrieve", "--data-dir", project / "data", "tea")
    assert result.exit_code == 3
    assert "is not a folder" in result.stderr
    assert "branchrank index FOLDER" in result.stderr


@pytest.mark.parametrize(
    "files", [{}, {"logo.png": "x"}, {".hidden/a.md": "# A\n"}], ids=["none", "other", "hidden"]
)
def test_an_empty_corpus(tmp_path: Path, files: dict[str, str]) -> None:
    (tmp_path / "docs").mkdir()
    for source, content in files.items():
        put(tmp_path, source, content)
    result = indexed(tmp_path)
    assert result.exit_code == 3
    assert "fix: " in result.stderr
    assert not (tmp_path / "data" / "indexes").exists()


def test_a_file_in_place_of_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "docs").write_text("# not a folder\n")
    assert indexed(tmp_path).exit_code == 3


@pytest.mark.parametrize(
    "content", ["", "\n\n\n", "   ", "\ufeff"], ids=["nothing", "lines", "blanks", "mark"]
)
def test_an_empty_file_is_indexed_with_the_others(tmp_path: Path, content: str) -> None:
    put(tmp_path, "empty.md", content)
    put(tmp_path, "empty.rst", content)
    put(tmp_path, "a.md", "# Kettle\n\nBoils water.\n")
    assert indexed(tmp_path).exit_code == 0
    assert found(tmp_path, "water")[0]["source"] == "a.md"
    checked(tmp_path)


def test_a_corpus_of_only_empty_files_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "empty.md", "")
    result = indexed(tmp_path)
    assert result.exit_code == 3


def test_a_binary_file_is_left_out_and_reported(tmp_path: Path) -> None:
    put(tmp_path, "image.md", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)))
    put(tmp_path, "a.md", "# Kettle\n\nBoils water.\n")
    result = indexed(tmp_path)
    assert result.exit_code == 0
    assert "note: 'image.md': skipped because it is a binary file" in result.stderr
    assert {hit["source"] for hit in found(tmp_path, "water")} == {"a.md"}


def test_a_latin_1_file_is_read_and_reported(tmp_path: Path) -> None:
    put(tmp_path, "cafe.rst", "Café\n====\n\nDéjà vu à la crème.\n".encode("latin-1"))
    put(tmp_path, "a.md", "# Kettle\n\nBoils water.\n")
    result = indexed(tmp_path)
    assert result.exit_code == 0
    assert "cafe.rst" in result.stderr
    hit = found(tmp_path, "crème")[0]
    assert (hit["source"], hit["line_start"], hit["line_end"]) == ("cafe.rst", 1, 4)
    assert "Déjà vu" in hit["text"]


UNCLOSED_RST = (
    "Title\n=====\n\n.. code-block:: python\n\n    open('x'\n\n``unclosed *emphasis `link <\n\n"
    "+---+\n| a |\n\n.. figure::\n\n.. |sub| replace::\n\n:field\n\n`<>`_ |x [1]_ .. _:\n\n"
    "Section\n~~~~\n\nThe last wombat.\n\n::"
)
UNCLOSED_MARKDOWN = (
    "---\ntitle: [unclosed\n\n# Title\n\n[link](<unclosed\n\n<div><span\n\n| a | b\n|--\n\n"
    "*em **strong `code\n\n## Section\n\nThe last wombat.\n\n```python\nopen('x'\n\n# no heading\n"
)


@pytest.mark.parametrize(
    ("source", "content"),
    [("a.rst", UNCLOSED_RST), ("a.md", UNCLOSED_MARKDOWN), ("a.mdx", UNCLOSED_MARKDOWN)],
)
def test_unclosed_constructs_lose_no_text(tmp_path: Path, source: str, content: str) -> None:
    put(tmp_path, source, content)
    put(tmp_path, "z.md", "# Other\n\nwords\n")
    assert indexed(tmp_path).exit_code == 0
    wombats = [hit for hit in found(tmp_path, "wombat") if "wombat" in hit["text"]]
    assert wombats
    line = content.split("\n").index("The last wombat.") + 1
    assert any(hit["line_start"] <= line <= hit["line_end"] for hit in wombats)
    checked(tmp_path)


def test_rst_nested_300_deep(tmp_path: Path) -> None:
    quotes = "".join("  " * depth + f"level{depth} item\n\n" for depth in range(300))
    lists = "".join("  " * depth + f"* entry{depth}\n\n" for depth in range(300))
    put(tmp_path, "deep.rst", f"Deep\n====\n\n{quotes}\nLists\n-----\n\n{lists}\nEnd\n---\n\nwombat\n")
    put(
        tmp_path,
        "deep.md",
        "# Deep\n\n" + ">" * 300 + " quoted\n\n" + "- " * 300 + "item\n\n## End\n\nwombat\n",
    )
    put(tmp_path, "headings.md", "".join(f"{'#' * (n % 6 + 1)} Heading {n}\n\n" for n in range(300)))
    assert indexed(tmp_path).exit_code == 0
    sources = {hit["source"] for hit in found(tmp_path, "wombat") if "wombat" in hit["text"]}
    assert sources == {"deep.rst", "deep.md"}
    checked(tmp_path)


def test_a_file_of_100_000_lines(tmp_path: Path) -> None:
    """One page that is far larger than any chunk: every chunk has its lines, and the last is found."""
    lines = ["# Log", ""] + [f"entry {number}" for number in range(99_990)]
    lines += ["", "## End", "", "The last wombat."] + [""] * 4
    put(tmp_path, "log.md", "\n".join(lines[:100_000]) + "\n")
    (tmp_path / "data").mkdir()
    result = indexed(tmp_path, "--chunk-tokens", 8192)
    assert result.exit_code == 0, result.output
    hit = found(tmp_path, "wombat")[0]
    assert hit["line_start"] <= lines.index("The last wombat.") + 1 <= hit["line_end"]
    chunks = json_lines(tmp_path / "data" / "chunks.jsonl")
    assert all(1 <= chunk["line_start"] <= chunk["line_end"] <= 100_000 for chunk in chunks)
    nodes = json_lines(tmp_path / "data" / "pageindex" / "nodes.jsonl")
    assert max(node["line_end"] or 0 for node in nodes) == 100_000


def test_symlinks_that_loop_or_leave_the_corpus_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "# Kettle\n\nBoils water.\n")
    (tmp_path / "secret.md").write_text("# Secret\n\nswordfish\n")
    docs = tmp_path / "docs"
    (docs / "loop").symlink_to(docs)
    (docs / "self.md").symlink_to(docs / "self.md")
    (docs / "out.md").symlink_to(tmp_path / "secret.md")
    (docs / "outside").symlink_to(tmp_path)
    (docs / "gone.md").symlink_to(tmp_path / "nothing.md")
    (docs / "up").symlink_to("..")
    result = indexed(tmp_path)
    assert result.exit_code == 0
    assert "out.md" in result.stderr
    assert {hit["source"] for hit in found(tmp_path, "swordfish water secret")} == {"a.md"}
    assert "swordfish" not in (tmp_path / "data" / "chunks.jsonl").read_text()


def test_pipes_and_folders_with_a_document_suffix_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "# Kettle\n\nBoils water.\n")
    os.mkfifo(tmp_path / "docs" / "pipe.md")
    (tmp_path / "docs" / "folder.md").mkdir()
    assert indexed(tmp_path).exit_code == 0
    assert {hit["source"] for hit in found(tmp_path, "water")} == {"a.md"}


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
    "a bad line": (["{nope"], "questions.jsonl:9: "),
    "no gold": ([{"id": "x", "question": "y"}], "questions.jsonl:9: no gold: add `source_file`"),
    "an unknown gold source": (
        [{**QUESTIONS[0], "id": "x", "source_file": "gone.md"}],
        "question 'x': the corpus has no file 'gone.md'",
    ),
    "gold past the end": (
        [{**QUESTIONS[0], "id": "x", "answer_line_end": 999}],
        "question 'x': line 999 is past the end of guide/brewing.md",
    ),
    "an id twice": ([QUESTIONS[0]], "questions.jsonl:9: an earlier line has the same id 'temperature'"),
}


@pytest.mark.parametrize("kind", BAD_QUESTIONS)
def test_a_wrong_question_file_ends_the_benchmark_before_it_begins(
    project: Path, tmp_path: Path, kind: str
) -> None:
    lines, reason = BAD_QUESTIONS[kind]
    path = write_lines(tmp_path / "questions.jsonl")
    with path.open("a") as stream:
        stream.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
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


def test_an_index_of_another_model_is_rebuilt(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    result = invoke("retrieve", "--data-dir", project / "data", "--embedder", "fake:32", "--json", "tea")
    assert result.exit_code == 0
    assert result.stderr.count("building it") == 1
    assert len(list((project / "data" / "indexes").iterdir())) == 2
    again = invoke("retrieve", "--data-dir", project / "data", "--json", "tea")
    assert again.stderr == "", "the index of the other model is still there"


def manifest_of(project: Path) -> Path:
    [path] = (project / "data" / "indexes").glob("*/current/manifest.json")
    return path.resolve()


FOREIGN: dict[str, Callable[[dict], None]] = {
    "another model": lambda manifest: manifest["embedder"].update(name="other"),
    "another model's weights": lambda manifest: manifest["embedder"].update(weights_digest="0" * 64),
    "another corpus": lambda manifest: manifest.update(corpus_digest="0" * 64, files=[]),
    "another schema": lambda manifest: manifest.update(schema_version=99),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_index_is_never_used(tmp_path: Path, kind: str) -> None:
    project = make_project(tmp_path)
    path = manifest_of(project)
    manifest = json.loads(path.read_text())
    FOREIGN[kind](manifest)
    path.write_text(json.dumps(manifest))
    result = invoke("retrieve", "--data-dir", project / "data", "--json", "remove stains")
    assert "Traceback" not in result.output
    if result.exit_code:
        assert result.exit_code == 4
        assert "branchrank index" in result.stderr
    else:
        assert "building it" in result.stderr
        assert manifest_of(project) != path


@pytest.mark.parametrize(
    "name", ["chunks.jsonl", "vectors.arrays", "pageindex/nodes.jsonl", "manifest.json", "build.json"]
)
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_index_is_rebuilt(tmp_path: Path, name: str, damage: str) -> None:
    project = make_project(tmp_path)
    whole = found(project, "remove stains")
    path = manifest_of(project).parent / name
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        middle = len(content) // 2
        changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes(content[:middle] if damage == "cut" else changed)
    result = invoke("retrieve", "--data-dir", project / "data", "--json", "--top-k", 20, "remove stains")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["hits"] == whole
    if name != "build.json" or damage != "changed":
        assert "building it" in result.stderr


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
    result = invoke("retrieve", "--data-dir", project / "data", "remove stains")
    assert result.exit_code == 0, result.output


def test_reports_on_a_disk_that_refuses(project: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    reports.write_text("a file where the folder should be")
    words = ("--predictor", "local", "--latency-sample", 0, "--reports", reports)
    result = invoke("benchmark", "--data-dir", project / "data", *words)
    assert result.exit_code == 2
    assert "reports" in result.stderr


def test_a_full_disk_ends_a_benchmark_that_is_resumed_later(project: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk; the rows that fitted are kept."""
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))\n"
        "from branchrank.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    words = ("benchmark", "--predictor", "all", *NO_LLM, "--latency-sample", 0, "--reports", tmp_path)
    done = program("-c", code, *words, cwd=project)
    assert done.returncode == 8, done.stderr
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr
    [stopped] = tmp_path.iterdir()
    kept = (stopped / "rows.jsonl").read_bytes().rpartition(b"\n")[0]
    again = invoke(*words[:1], "--data-dir", project / "data", *words[1:])
    assert again.exit_code == 0, again.output
    assert "resuming the interrupted run" in again.stderr
    whole = (stopped / "rows.jsonl").read_bytes()
    assert whole.startswith(kept)
    assert whole.count(b"\n") == 3 * len(QUESTIONS)


def test_two_builds_at_once(tmp_path: Path) -> None:
    write_pages(tmp_path / "docs")
    configure(tmp_path / "data", corpus=tmp_path / "docs", settings={"index.embedder": "fake:64"})
    with build_lock(tmp_path / "data"):
        for words in (("retrieve", "tea"), ("index",), ("benchmark", "--predictor", "local")):
            path = write_lines(tmp_path / "questions.jsonl")
            more = ("--questions", path) if words[0] == "benchmark" else ()
            result = invoke(*words, "--data-dir", tmp_path / "data", *more)
            assert result.exit_code == 4, result.output
            assert "another process is building an index" in result.stderr
            assert "wait until the other process has finished" in result.stderr
    assert found(tmp_path, "tea")


def test_a_build_does_not_disturb_readers(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    with open_index(WorkspaceFolder.open(project / "data")) as reader, build_lock(project / "data"):
        assert len(found(project, "tea")) > 0
        assert reader.chunks


def test_identical_pages_are_indexed_separately(tmp_path: Path) -> None:
    """The same page many times: every chunk has its own id, and ties are broken the same way every time."""
    for number in range(12):
        put(tmp_path, f"p{number:02d}.md", PAGES["guide/cleaning.md"])
    assert indexed(tmp_path).exit_code == 0
    first = found(tmp_path, "baking soda")
    assert first == found(tmp_path, "baking soda")
    sources = [hit["source"] for hit in first if "Baking" in hit["text"]]
    assert sources == sorted(sources)
