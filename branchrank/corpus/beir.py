"""BEIR folders (Thakur et al., NeurIPS 2021): ``corpus.jsonl``, ``queries.jsonl``, ``qrels/<split>.tsv``.

1. Each line of ``corpus.jsonl`` becomes a file of its own: the title on line 1 (empty where there is none),
   then the text, line by line. Its name is the entry's ``_id``, percent-encoded, and the suffix ``.beir``; as
   no word of the document it is not indexed.
2. Such a file is one section, whose readable text is the text word for word: nothing in it is markup. Where
   there is a title only, it is the text.
3. The files are written beside their place and renamed into it, so they are all there or none.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from branchrank.artifacts import digest_bytes, digest_file, storage_errors, write_text
from branchrank.corpus.document import ENTRY_SUFFIX, Block, Document, Section
from branchrank.corpus.lines import decode, split_lines
from branchrank.corpus.plain import plain_blocks
from branchrank.errors import CorpusError
from branchrank.records import Record

CORPUS = "corpus.jsonl"
QUERIES = "queries.jsonl"
QRELS = "qrels"


class Entry(Record, frozen=True, kw_only=True):
    """One document of ``corpus.jsonl``."""

    id: str = msgspec.field(name="_id")
    text: str
    title: str | None = None


def is_beir(folder: Path) -> bool:
    """Whether a folder holds a BEIR corpus."""
    return (folder / CORPUS).is_file() and (folder / QUERIES).is_file()


def entries_place(name: str) -> str:
    """Where a workspace keeps the entries of a folder of this name, below its own folder."""
    return f"beir/{name}"


def entry_source(identifier: str) -> str:
    """The source of the entry with this ``_id``."""
    name = quote(identifier, safe="")
    return f"{'%2E' + name[1:] if name.startswith('.') else name}{ENTRY_SUFFIX}"


def entry_id(source: str) -> str | None:
    """The ``_id`` of the entry that a source is, ``None`` for any other document."""
    return unquote(source.removesuffix(ENTRY_SUFFIX)) if source.endswith(ENTRY_SUFFIX) else None


def read_entry(source: str, content: bytes) -> Document:
    """Read the file of an entry. Never raises for what it holds."""
    text, notes = decode(content)
    lines = split_lines(text)
    title = " ".join(lines[0].split())
    blocks: list[Block] = plain_blocks(["", *lines[1:]])
    if title and not blocks:
        title, blocks = "", [Block(kind="prose", text=title, line_start=1, line_end=1)]
    section = Section(
        id=source,
        title=title,
        level=0,
        parent=None,
        line_start=1,
        own_line_end=len(lines),
        line_end=len(lines),
        blocks=tuple(blocks),
    )
    return Document(
        source=source,
        title=title,
        digest=digest_bytes(content),
        line_count=len(lines),
        sections=(section,),
        notes=notes,
    )


def read_entries(folder: Path) -> Iterator[Entry]:
    """The entries of a folder's corpus, one line at a time.

    Raises :class:`CorpusError` naming a line that is no entry or repeats an ``_id``.
    """
    path = folder / CORPUS
    decoder = msgspec.json.Decoder(Entry)
    seen: set[str] = set()
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if not line.strip():
                    continue
                entry = decoder.decode(line)
                if not entry.id or entry.id in seen:
                    raise CorpusError(f"{path}:{number}: the `_id` {entry.id!r} is empty or used before")
                seen.add(entry.id)
                yield entry
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}", remedy="check the path") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CorpusError(f"{path}:{number}: {error}", remedy=f"correct {path}") from None


def unpack_beir(folder: Path, target: Path) -> Path:
    """Write the entries of a BEIR folder as files into ``target``, replacing those there; returns it.

    Entries of the same ``corpus.jsonl`` stay: a file beside ``target`` keeps its SHA-256.

    Raises :class:`CorpusError` for a corpus that can't be read, or when ``target`` holds anything else, and
    :class:`~branchrank.errors.StorageError`.
    """
    if target.exists() and not (
        target.is_dir() and all(path.suffix == ENTRY_SUFFIX for path in target.iterdir())
    ):
        raise CorpusError(
            f"{target} holds what is no entry of a BEIR corpus",
            remedy=f"move {target} away, or choose another --data-dir",
        )
    kept = target.with_name(f"{target.name}.sha256")
    digest = _corpus_digest(folder)
    if target.is_dir() and kept.is_file() and kept.read_text(encoding="utf-8") == digest:
        return target
    with storage_errors(target):
        kept.unlink(missing_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as temporary:
            fresh = Path(temporary, "entries")
            fresh.mkdir()
            for entry in read_entries(folder):
                title = " ".join((entry.title or "").split())
                text = f"{title}\n{entry.text}\n".replace("\0", " ")
                (fresh / entry_source(entry.id)).write_bytes(text.encode())
            if target.exists():
                target.rename(Path(temporary, "before"))
            fresh.rename(target)
    write_text(kept, digest)
    return target


def _corpus_digest(folder: Path) -> str:
    """SHA-256 of a folder's corpus. Raises :class:`CorpusError`."""
    path = folder / CORPUS
    try:
        return digest_file(path)
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}", remedy="check the path") from error
