"""Corpora by name: pinned, unpacked safely, nothing executed. A local folder stands in for the index."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
import threading
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.commands import ROOT, invoke
from support.needs import need

from branchrank.core.errors import CorpusError
from branchrank.core.io.progress import Progress, no_progress
from branchrank.documents.named import (
    add_corpus,
    corpora_home,
    known_corpora,
    locate_corpus,
    unpack_folder,
    write_corpus_questions,
)
from branchrank.documents.package_index import NamedCorpus
from branchrank.questions.question_files import load_questions

FILENAME = "pack-1.0.tar.gz"


def archive(*members: tuple[str, bytes], links: tuple[tuple[str, str], ...] = ()) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.mode = 0o777
            tar.addfile(info, io.BytesIO(content))
        for name, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return buffer.getvalue()


SDIST = archive(
    ("pack-1.0/docs/index.rst", b"Title\n=====\n"),
    ("pack-1.0/docs/sub/a.txt", b"a"),
    ("pack-1.0/setup.py", b"import pathlib; pathlib.Path('EXECUTED').touch()"),
)


def entry(content: bytes = SDIST, **changes: object) -> NamedCorpus:
    values: dict[str, object] = {
        "description": "",
        "folder": "docs",
        "project": "pack",
        "filename": FILENAME,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": len(content),
    }
    return NamedCorpus(**(values | changes))  # type: ignore[arg-type]


class Handler(SimpleHTTPRequestHandler):
    authorizations: list[str | None] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.authorizations.append(self.headers["Authorization"])
        super().do_GET()

    def guess_type(self, path: str | os.PathLike[str]) -> str:
        is_json = Path(path).read_bytes().startswith(b"{")
        return "application/vnd.pypi.simple.v1+json" if is_json else super().guess_type(path)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "site"
    (folder / "simple" / "pack").mkdir(parents=True)
    (folder / "files").mkdir()
    (folder / "files" / FILENAME).write_bytes(SDIST)
    page = folder / "simple" / "pack" / "index.html"
    page.write_text(f'<a href="../../files/{FILENAME}#sha256=0">{FILENAME}</a>')
    Handler.authorizations.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield folder, f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def index(*urls: str, links: tuple[str, ...] = ()) -> dict[str, str]:
    extra = {"PIP_EXTRA_INDEX_URL": " ".join(urls[1:]), "PIP_FIND_LINKS": " ".join(links)}
    first = {"PIP_INDEX_URL": urls[0]} if urls else {"PIP_NO_INDEX": "1"}
    return {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", "PIP_RETRIES": "0", **first, **extra}


def add(
    target: Path,
    configuration: dict[str, str] | None = None,
    progress: Progress = no_progress,
    *,
    corpus: NamedCorpus | None = None,
) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("branchrank.documents.named.known_corpora", lambda: {"pack": corpus or entry()})
        for name, value in (configuration or {}).items():
            patch.setenv(name, value)
        return add_corpus("pack", target, progress)


@pytest.mark.full
def test_a_json_index_and_a_user_in_its_address(tmp_path: Path, site: tuple[Path, str]) -> None:
    folder, host = site
    page = {"files": [{"url": f"/files/{FILENAME}", "hashes": {}}], "meta": {"api-version": "1.0"}}
    (folder / "simple" / "pack" / "index.html").write_text(json.dumps(page))
    add(tmp_path / "x", index(f"http://me:p%40ss@{host}/simple"))
    assert Handler.authorizations == ["Basic bWU6cEBzcw=="] * 2


@pytest.mark.full
def test_a_folder_of_packages_works_as_an_index(tmp_path: Path, site: tuple[Path, str]) -> None:
    add(tmp_path / "x", index(links=(str(site[0] / "files"),)))
    assert (tmp_path / "x" / "index.rst").is_file()
    add(tmp_path / "y", index("http://127.0.0.1:1/simple", (site[0] / "simple").as_uri()))
    assert (tmp_path / "y" / "index.rst").is_file()


@pytest.mark.parametrize(
    "changes", [{"sha256": "0" * 64}, pytest.param({"size": len(SDIST) - 1}, marks=pytest.mark.full)]
)
def test_a_file_that_is_not_the_pinned_one_is_refused_and_the_credentials_stay_with_the_index(
    tmp_path: Path, site: tuple[Path, str], changes: dict[str, object]
) -> None:
    folder, host = site
    other = host.replace("127.0.0.1", "localhost")
    (folder / "simple" / "pack" / "index.html").write_text(f'<a href="http://{other}/files/{FILENAME}">x</a>')
    told: list[tuple[str, int, int]] = []
    corpus = entry(**changes)
    target = tmp_path / "home" / "pack"
    indexes = index("http://me:secret@127.0.0.1:1/simple", f"http://me:secret@{host}/simple")
    with pytest.raises(CorpusError, match="refused") as caught:
        add(target, indexes, lambda *step: told.append(step), corpus=corpus)
    assert f"/files/{FILENAME}" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "pip config list" in caught.value.remedy
    assert list(target.parent.iterdir()) == []
    assert told == [("download", len(SDIST), len(SDIST))] * (corpus.size == len(SDIST))
    assert [bool(sent) for sent in Handler.authorizations] == [True, False]


@pytest.mark.full
def test_without_a_network_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="refused") as caught:
        add(tmp_path / "x", index("http://me:secret@127.0.0.1:1/simple"))
    assert "secret" not in str(caught.value)
    assert "pip config list" in caught.value.remedy


def test_an_added_corpus_does_not_change(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.rst").write_text("A")
    assert add(tmp_path / "x", index()) == tmp_path / "x"


@pytest.mark.parametrize("folder", ["docs", "doc/build"])
def test_only_regular_files_of_the_folder_are_unpacked(tmp_path: Path, folder: str) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(
        archive(
            (f"top/{folder}/good.rst", b"x"),
            ("top/other/no.rst", b"x"),
            (f"{folder}/shallow.rst", b"x"),
            (f"top/{folder}", b"x"),
            links=((f"top/{folder}/link", "/etc/passwd"), (f"top/{folder}/up", "../../..")),
        )
    )
    target = tmp_path / "out"
    unpack_folder(path, folder, target)
    assert [(str(p.relative_to(target)), p.stat().st_mode & 0o111) for p in target.rglob("*")] == [
        ("good.rst", 0)
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("top/docs/../../evil.rst", tarfile.REGTYPE),
        ("top/docs/a/../../../evil.rst", tarfile.REGTYPE),
        ("/top/docs/absolute.rst", tarfile.REGTYPE),
        ("/docs/absolute.rst", tarfile.REGTYPE),
        ("top/docs/null", tarfile.CHRTYPE),
        ("top/docs/disk", tarfile.BLKTYPE),
        ("top/docs/pipe", tarfile.FIFOTYPE),
    ],
)
def test_an_archive_with_a_bad_member_is_refused(tmp_path: Path, name: str, kind: bytes) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", mode="w:gz") as tar:
        for each, its in (("top/docs/good.rst", tarfile.REGTYPE), (name, kind)):
            info = tarfile.TarInfo(each)
            info.type = its
            tar.addfile(info)
    with pytest.raises(CorpusError, match="can't be unpacked"):
        unpack_folder(tmp_path / "a.tar.gz", "docs", tmp_path / "out")
    assert not (tmp_path / "evil.rst").exists()


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(SDIST[: len(SDIST) // 2])
    with pytest.raises(CorpusError, match="can't be unpacked"):
        unpack_folder(path, "docs", tmp_path / "two")


def debian_package() -> bytes:
    """A .deb: an ar archive whose last member is data.tar, with paths below ``./usr``."""
    data = archive(("./usr/share/pack/de/a.html", b"<h1>A</h1>"), ("./usr/share/doc/pack/copyright", b"x"))
    content = b"!<arch>\n"
    for name, member in (("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), ("data.tar.xz", data)):
        content += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(member):<10}`\n".encode() + member
        content += b"\n" * (len(member) % 2)
    return content


DEB = debian_package()
#: The arguments of this apt-get are written to `asked`; it fails as the real one does for an old version.
APT = """#!/bin/sh
echo "$@" > {folder}/asked
[ -f {folder}/{filename} ] && exec cp {folder}/{filename} .
echo "E: Version '1.0-2' for 'pack' was not found" >&2
exit 100
"""


def debian_entry(**changes: object) -> NamedCorpus:
    return entry(DEB, **({"folder": "share/pack/de", "filename": "pack_1.0-2_all.deb"} | changes))


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an apt-get that downloads the files in this folder."""
    folder = tmp_path / "apt"
    folder.mkdir()
    program = folder / "apt-get"
    program.write_text(APT.format(folder=folder, filename="pack_1.0-2_all.deb"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_a_debian_package_comes_from_apt_at_its_pinned_version(tmp_path: Path, apt: Path) -> None:
    (apt / "pack_1.0-2_all.deb").write_bytes(DEB)
    told: list[tuple[str, int, int]] = []
    target = add(tmp_path / "home" / "pack", None, lambda *step: told.append(step), corpus=debian_entry())
    assert told[-1] == ("unpack", 1, 1)
    assert [str(path.relative_to(target)) for path in target.rglob("*")] == ["a.html"]
    assert (apt / "asked").read_text().split() == ["download", "pack=1.0-2"]
    with pytest.raises(CorpusError, match="must be 0, but is"):
        add(tmp_path / "other" / "pack", corpus=debian_entry(sha256="0"))
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["pack"]


@pytest.mark.parametrize("installed", [True, False])
def test_without_the_debian_package_the_error_names_the_file_and_the_flag(
    tmp_path: Path, apt: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    if not installed:
        monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorpusError, match="not found" if installed else "No such file") as caught:
        add(tmp_path / "x", corpus=debian_entry())
    assert "pack_1.0-2_all.deb" in str(caught.value)
    assert "--from FOLDER" in caught.value.remedy


@pytest.mark.parametrize(("content", "corpus"), [(DEB, debian_entry()), (SDIST, entry())])
def test_the_pinned_file_is_copied_from_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, corpus: NamedCorpus
) -> None:
    symfony = NamedCorpus(description="", folder=".", repository="file:///x", commit="0" * 40)
    monkeypatch.setattr(
        "branchrank.documents.named.known_corpora", lambda: {"pack": corpus, "symfony": symfony}
    )
    monkeypatch.setenv("BRANCHRANK_CORPORA", str(tmp_path / "home"))
    folder = tmp_path / "packages"
    command = ("corpus", "add", "pack", "--quiet", "--from", str(folder))
    missing = invoke(*command)
    assert missing.exit_code == CorpusError.exit_code
    assert str(folder / corpus.filename) in missing.stderr
    folder.mkdir()
    (folder / corpus.filename).write_bytes(content + b"x")
    assert hashlib.sha256(content + b"x").hexdigest() in invoke(*command).stderr
    assert not (tmp_path / "home" / "pack").exists()
    (folder / corpus.filename).write_bytes(content)
    assert invoke(*command).exit_code == 0
    assert {path.name for path in (tmp_path / "home" / "pack").iterdir()} <= {"a.html", "index.rst", "sub"}
    for name in ("symfony", "ir:beir/scifact/test"):
        refused = invoke("corpus", "add", name, "--quiet", "--from", str(folder))
        assert refused.exit_code == CorpusError.exit_code
        assert "is not a file" in refused.stderr


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    command = [need("git"), "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_repository_comes_at_its_pinned_commit(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "--quiet")
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    (origin / "a.rst").write_text("first")
    (origin / "link.rst").symlink_to("/etc/passwd")
    git(origin, "add", "-A")
    git(origin, "commit", "--quiet", "-m", "one")
    commit = git(origin, "rev-parse", "HEAD")
    (origin / "a.rst").write_text("second")
    git(origin, "commit", "--quiet", "-a", "-m", "two")

    corpus = NamedCorpus(description="", folder=".", repository=origin.as_uri(), commit=commit)
    result = add(tmp_path / "home" / "repo", corpus=corpus)
    assert (result / "a.rst").read_text() == "first"
    assert not (result / "link.rst").is_symlink()
    assert not (result / ".git").exists()

    missing = NamedCorpus(description="", folder=".", repository=(tmp_path / "no").as_uri(), commit=commit)
    with pytest.raises(CorpusError, match="cannot clone"):
        add(tmp_path / "home" / "other", corpus=missing)
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["repo"]


def test_a_path_is_accepted_wherever_a_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHRANK_CORPORA", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert corpora_home() == tmp_path / "home"
    name = next(iter(known_corpora()))
    with pytest.raises(CorpusError) as caught:
        locate_corpus(name)
    assert caught.value.remedy == f"branchrank corpus add {name}"
    (tmp_path / "home" / name).mkdir(parents=True)
    assert locate_corpus(name) == tmp_path / "home" / name
    (tmp_path / "docs").mkdir()
    assert locate_corpus("docs") == Path("docs")
    assert locate_corpus(tmp_path / "docs") == tmp_path / "docs"
    with pytest.raises(CorpusError, match="folder 'nowhere'"):
        locate_corpus("nowhere")
    with pytest.raises(CorpusError) as caught:
        add_corpus("nowhere")
    assert caught.value.remedy == "branchrank corpus list"


def test_every_known_corpus_is_pinned() -> None:
    for corpus in known_corpora().values():
        pins = (corpus.commit,) if corpus.repository else (corpus.sha256, corpus.filename, corpus.project)
        assert all(pins)
        assert len(pins[0]) in (40, 64)
        assert corpus.description
        assert corpus.license


def test_corpus_add_keeps_the_docs_of_a_distribution_writes_the_questions_and_names_the_next_commands(
    tmp_path: Path, site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lxml = entry(license="MIT", exclude=("changes-*",), questions="0")
    monkeypatch.setattr("branchrank.documents.named.known_corpora", lambda: {"lxml": lxml, "pack": entry()})
    monkeypatch.setenv("BRANCHRANK_CORPORA", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name, value in index(f"http://{site[1]}/simple").items():
        monkeypatch.setenv(name, value)

    done = invoke("corpus", "add", "lxml", "--questions", "--quiet")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"lxml: {tmp_path / 'home' / 'lxml'}",
        "license: MIT",
        "questions: lxml-questions.jsonl",
        "",
        "next:",
        "  branchrank index lxml --data-dir data/lxml --embedder all-MiniLM-L6-v2 --exclude 'changes-*'",
        "  branchrank benchmark --data-dir data/lxml --questions lxml-questions.jsonl",
    ]
    home = tmp_path / "home"
    files = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    assert files == ["lxml/index.rst", "lxml/sub/a.txt"]
    assert list(tmp_path.rglob("EXECUTED")) == []
    written = tmp_path / "lxml-questions.jsonl"
    assert written.read_bytes() == (ROOT / "examples" / "lxml-questions.jsonl").read_bytes()
    assert invoke("corpus", "add", "lxml", "--questions", "--quiet").stdout == done.stdout

    written.write_text("my own")
    refused = invoke("corpus", "add", "lxml", "--questions", "--quiet")
    assert refused.exit_code == CorpusError.exit_code
    assert "lxml-questions.jsonl exists" in refused.stderr
    assert written.read_text() == "my own"
    without = invoke("corpus", "add", "pack", "--questions", "--quiet")
    assert without.exit_code == CorpusError.exit_code
    assert not (tmp_path / "home" / "pack").exists()


def test_the_questions_about_named_corpora_are_the_pinned_ones(tmp_path: Path) -> None:
    pinned = {name: corpus.questions for name, corpus in known_corpora().items() if corpus.questions}
    assert set(pinned) >= {"django", "lxml", "sqlalchemy", "werkzeug"}
    included = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    for name, digest in pinned.items():
        path = write_corpus_questions(name, tmp_path / name)
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
        assert sum(question.answerable for question in load_questions(path)) >= 40
        file = f"examples/{name}-questions.jsonl"
        assert included["wheel"]["force-include"][file] == f"branchrank/{file}"
