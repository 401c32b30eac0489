"""What can be wrong with a file: listed from the file itself, field by field.

A change is a name, such as ``top_k: -1``, and the new bytes of the file, or a replacement of the file by a
link, a pipe or a folder. Fields are found in JSON, JSON Lines, TOML, CSV, SQLite and ``.arrays`` files; of a
field that repeats, in a list or in lines, the first is changed. So new fields and files are covered by
themselves.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

LONG = 10_000_000
TYPES = ("null", "true", '"x"', "[]", "{}")
RANGES = ("-1", "0", str(10**18), "1e308", "NaN", "Infinity", "9" * 400)
TEXTS = {
    "empty": '""',
    "10 MB": json.dumps("x" * LONG),
    "lone surrogate": '"\\ud800"',
    "NUL": '"a\\u0000b"',
    "terminal codes": '"\\u001b[31mred\\u009b0m\\u202e"',
    "path outside": '"../../../../outside/secret.txt"',
    "absolute path": '"/etc/passwd"',
}
LITERALS = {
    **{
        name: name
        for name in ("true", "7", '"x"', "[]", "{}", "-1", "0", "nan", "inf", "1e308", "1979-05-27")
    },
    "10^18": str(10**18),
    "empty": '""',
    "10 MB": json.dumps("x" * LONG),
    "NUL": '"a\\u0000b"',
    "terminal codes": '"\\u001b[31mred"',
    "path outside": '"../../../../outside/secret.txt"',
    "nested": "[" * 3_000,
}
CELLS = {
    **{name: name for name in ("", "x", "-1", "nan", "1e308", str(10**18))},
    "10 MB": "x" * LONG,
    "NUL": "a\0b",
    "formula": "=1+1",
    "line break": "a\nb",
}
VALUES: dict[str, Any] = {
    "NULL": None,
    "number": 7,
    "huge": 10**18,
    "real": 1e308,
    "text": "x",
    "empty": "",
    "bytes": b"\0\xff",
    "10 MB": "x" * LONG,
}
_HOLE = "\ue123"


class Change(NamedTuple):
    """``apply`` changes the file at a path."""

    name: str
    apply: Callable[[Path], object]


def changes_of(path: Path, outside: Path) -> Iterator[Change]:
    """Everything that can be wrong with a file; ``outside`` is a folder that links may lead to."""
    yield from whole_file(path.read_bytes(), outside)
    fields = _FIELDS.get(path.suffix)
    if fields is not None:
        for name, content in fields(path):
            yield Change(name, lambda where, content=content: where.write_bytes(content()))


def whole_file(content: bytes, outside: Path) -> Iterator[Change]:
    """Kind, length and encoding of the file itself."""
    middle = len(content) // 2
    start, end = content[:middle], content[middle:]
    text = content.decode("utf-8", "replace")
    made: dict[str, bytes] = {
        "empty": b"",
        "cut in the middle": start,
        "cut at the end": content[:-1],
        "one bit": content[:middle]
        + bytes(each ^ 1 for each in content[middle : middle + 1])
        + content[middle + 1 :],
        "invalid UTF-8": content[:middle] + b"\xff\xfe" + content[middle:],
        "NUL bytes": content[:middle] + b"\0\0" + content[middle:],
        "byte order mark": b"\xef\xbb\xbf" + content,
        "UTF-16": text.encode("utf-16", "replace"),
        "surrogates": start + b"\xed\xa0\x80" + end,
        "twice": content + content,
        "nested": b"[" * 100_000,
        "other bytes": b"\x00\xff\xfe\x1b" * 50,
    }
    for name, changed in made.items():
        yield Change(name, lambda path, changed=changed: path.write_bytes(changed))
    yield Change("10 MB more", lambda path: path.write_bytes(content + b"x" * LONG))
    yield Change("missing", lambda path: path.unlink())
    yield Change(
        "link to a secret", lambda path: _replaced(path, lambda: path.symlink_to(outside / "secret.txt"))
    )
    yield Change("link to a copy", lambda path: _linked_copy(path, outside))
    yield Change("link to itself", lambda path: _replaced(path, lambda: path.symlink_to(path)))
    yield Change("pipe", lambda path: _replaced(path, lambda: os.mkfifo(path)))
    yield Change("folder", lambda path: _replaced(path, path.mkdir))


def _replaced(path: Path, make: Callable[[], object]) -> None:
    path.unlink()
    make()


def _linked_copy(path: Path, outside: Path) -> None:
    shutil.copy2(path, outside / "copy")
    _replaced(path, lambda: path.symlink_to(outside / "copy"))


Field = tuple[str, Callable[[], bytes]]


def json_fields(path: Path) -> Iterator[Field]:
    """The fields of a JSON document."""
    document = json.loads(path.read_bytes())
    for name, text in _changed_documents(document):
        yield name, lambda text=text: text().encode("utf-8", "surrogatepass")


def line_fields(path: Path) -> Iterator[Field]:
    """The fields of JSON Lines, each in the first line that has it."""
    yield from _line_fields(path.read_bytes())


def compressed_line_fields(path: Path) -> Iterator[Field]:
    """The fields of compressed JSON Lines, each in the first line that has it; and too many lines."""
    unpacked = zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True).read()
    for name, content in _line_fields(unpacked):
        yield name, lambda content=content: zstandard.compress(content())
    yield "lines: 80 MB", lambda: zstandard.compress(b"\n" * (80 << 20))
    yield "lines: of zeros", lambda: zstandard.compress(b"\0" * (1 << 20))


def _line_fields(content: bytes) -> Iterator[Field]:
    lines = content.split(b"\n")
    seen: set[str] = set()
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        known = frozenset(seen)
        for name, text in _changed_documents(json.loads(line)):
            if name not in known:
                seen.add(name)
                yield (
                    name,
                    lambda text=text, number=number: b"\n".join(
                        [*lines[:number], text().encode("utf-8", "surrogatepass"), *lines[number + 1 :]]
                    ),
                )


def _changed_documents(document: Any) -> Iterator[tuple[str, Callable[[], str]]]:
    """The JSON texts of a document, each with one field changed."""
    for way, value in _places(document):
        name = ".".join("*" if isinstance(key, int) else key for key in way)
        for what, text in _texts_for(value):
            yield f"{name}: {what}", lambda way=way, text=text: _with(document, way, text)
        yield f"{name}: missing", lambda way=way: _with(document, way, None)
        if isinstance(way[-1], str):
            twice = f"{json.dumps(value)},{json.dumps(way[-1])}:null"
            yield f"{name}: twice", lambda way=way, twice=twice: _with(document, way, twice)


def _texts_for(value: Any) -> Iterator[tuple[str, str]]:
    yield from ((text[:20], text) for text in TYPES)
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from ((text[:20], text) for text in RANGES)
    if isinstance(value, str):
        yield from TEXTS.items()
    if isinstance(value, list) and value:
        yield "10,000 times", json.dumps(value[:1] * 10_000)


def _places(value: Any, way: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every field with its value; of a list only the first item."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value[:1])
    for key, below in items:
        yield (*way, key), below
        yield from _places(below, (*way, key))


def _with(document: Any, way: tuple[str | int, ...], text: str | None) -> str:
    """The document with another JSON text at one place, or without it."""
    changed = json.loads(json.dumps(document))
    place = changed
    for key in way[:-1]:
        place = place[key]
    if text is None:
        del place[way[-1]]
    else:
        place[way[-1]] = _HOLE
    return json.dumps(changed).replace(json.dumps(_HOLE), text or "", 1)


def toml_fields(path: Path) -> Iterator[Field]:
    """The values of a TOML file, each on a line of its own."""
    content = path.read_text(encoding="utf-8")
    for found in re.finditer(r"^([\w.-]+) = (.*)$", content, re.MULTILINE):
        start, end = found.span(2)
        for what, text in LITERALS.items():
            yield (
                f"{found[1]}: {what}",
                lambda s=start, e=end, t=text: (content[:s] + t + content[e:]).encode(),
            )
        yield f"{found[1]}: missing", lambda f=found: (content[: f.start()] + content[f.end() :]).encode()
        yield (
            f"{found[1]}: twice",
            lambda f=found: (content[: f.end()] + "\n" + f[0] + content[f.end() :]).encode(),
        )


def csv_fields(path: Path) -> Iterator[Field]:
    """The columns of a CSV file: the cell of the first row, and the column itself."""
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    if len(rows) < 2:
        return

    def written(changed: list[list[str]]) -> bytes:
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows(changed)
        return stream.getvalue().encode()

    for column, name in enumerate(rows[0]):
        for what, text in CELLS.items():
            row = [text if place == column else cell for place, cell in enumerate(rows[1])]
            yield f"{name}: {what}", lambda row=row: written([rows[0], row, *rows[2:]])
        yield (
            f"{name}: missing",
            lambda column=column: written([row[:column] + row[column + 1 :] for row in rows]),
        )
        yield (
            f"{name}: twice",
            lambda column=column: written([[*row, *row[column : column + 1]] for row in rows]),
        )


def array_fields(path: Path) -> Iterator[Field]:
    """The types, shapes and positions of arrays at the end of their file, and the first number."""
    content = path.read_bytes()
    end = len(content) - 8 - int.from_bytes(content[-8:], "little")
    header = content[end:-8].decode()
    for what, old, new in (
        ("type", r'\["[^"]*"', '["|O"'),
        ("wide type", r'\["[^"]*"', '["<f8"'),
        ("huge shape", r"\[(\d+)", f"[{10**15}"),
        ("negative shape", r"\[(\d+)", "[-1"),
        ("other shape", r"\[(\d+)", "[1"),
        ("position", r"\],\d+\]", f"],{10**15}]"),
        ("name", r'"[a-z.]+"', '"other"'),
        ("nested", r"\[(\d+)", "[" * 200),
    ):
        changed = re.sub(old, lambda _, new=new: new, header, count=1).encode()
        last = changed + len(changed).to_bytes(8, "little")
        yield f"header: {what}", lambda last=last: content[:end] + last
    for what, raw in (("NaN", b"\x00\x00\xc0\x7f"), ("infinity", b"\x00\x00\x80\x7f"), ("-1", b"\xff" * 8)):
        yield f"first number: {what}", lambda raw=raw: raw + content[len(raw) :]


def sqlite_fields(path: Path) -> Iterator[Field]:
    """The columns of the tables of a SQLite file, in their first row; its schema and header."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as opened:
        tables = opened.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        columns = {
            name: [row[1] for row in opened.execute(f'PRAGMA table_info("{name}")')]
            for name, sql in tables
            if sql and "VIRTUAL" not in sql
        }
        counts = {name: opened.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in columns}
    opened.close()
    for table, names in columns.items():
        for column in names if counts[table] else ():
            one = f'"{column}" IN (SELECT "{column}" FROM "{table}" LIMIT 1)'
            for what, value in VALUES.items():
                statement = f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE {one}'
                yield f"{table}.{column}: {what}", _executed(path, statement, (value,))
            invalid = f'UPDATE OR IGNORE "{table}" SET "{column}" = CAST(x\'ff00fe\' AS TEXT) WHERE {one}'
            yield f"{table}.{column}: invalid UTF-8", _executed(path, invalid)
        yield f"{table}: no rows", _executed(path, f'DELETE FROM "{table}"')
        yield f"{table}: gone", _executed(path, f'DROP TABLE "{table}"')
        yield (
            f"{table}: trigger",
            _executed(path, f'CREATE TRIGGER t AFTER INSERT ON "{table}" BEGIN SELECT 1; END'),
        )
    yield "a view", _executed(path, "CREATE VIEW v AS SELECT 1")
    for pragma in ("application_id", "user_version"):
        for number in (0, -1, 99):
            yield f"{pragma}: {number}", _executed(path, f"PRAGMA {pragma} = {number}")


def _executed(path: Path, statement: str, values: tuple[object, ...] = ()) -> Callable[[], bytes]:
    """The bytes of a copy of the file in which a statement ran; of a cassette's row, its checksum fits."""

    def content() -> bytes:
        copy = path.with_name(f"{path.name}.changed")
        shutil.copyfile(path, copy)
        opened = sqlite3.connect(copy, isolation_level=None)
        try:
            opened.execute("PRAGMA writable_schema = ON")
            opened.execute(statement, values)
            opened.create_function("checksum", -1, _checksum)
            if "checksum" not in statement:
                opened.execute(
                    "UPDATE calls SET checksum = checksum(key, stage, question, request, recorded)"
                )
        except sqlite3.Error:
            pass  # a constraint, a table without such a checksum
        finally:
            opened.close()
        changed = copy.read_bytes()
        copy.unlink()
        return changed

    return content


def _checksum(*fields: object) -> str:
    return hashlib.sha256("\0".join(map(str, fields)).encode("utf-8", "replace")).hexdigest()


_FIELDS: dict[str, Callable[[Path], Iterator[Field]]] = {
    ".json": json_fields,
    ".jsonl": line_fields,
    ".zst": compressed_line_fields,
    ".toml": toml_fields,
    ".csv": csv_fields,
    ".arrays": array_fields,
    ".sqlite": sqlite_fields,
    ".sqlite3": sqlite_fields,
}
