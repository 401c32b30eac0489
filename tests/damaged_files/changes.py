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
import math
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

LONG = 10_000_000
#: What a field may hold instead, by name; each format writes the values in its own way.
TYPES: dict[str, Any] = {"null": None, "true": True, '"x"': "x", "[]": [], "{}": {}}
NUMBERS: dict[str, Any] = {
    **{str(number): number for number in (-1, 0, 1e308, math.nan)},
    **{"10^18": 10**18, "Infinity": math.inf, "400 digits": int("9" * 400)},
}
TEXTS: dict[str, Any] = {
    **{"empty": "", "10 MB": "x" * LONG, "NUL": "a\0b", "lone surrogate": "\ud800", "line break": "a\nb"},
    **{"terminal codes": "\x1b[31mred\x9b0m\u202e", "path outside": "../../../../outside/secret.txt"},
    **{"absolute path": "/etc/passwd", "formula": "=1+1"},
}
JSON = {what: json.dumps(value) for what, value in (TYPES | NUMBERS | TEXTS).items()}
#: What a column of SQLite may hold.
VALUES = {"null": None, "10^18": 10**18, "1e308": 1e308, "bytes": b"\0\xff"}
VALUES |= {name: TEXTS[name] for name in ("empty", "10 MB", "NUL", "path outside")}
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
    start, end = content[: len(content) // 2], content[len(content) // 2 :]
    made = {
        "empty": b"",
        "cut in the middle": start,
        "cut at the end": content[:-1],
        "one bit": start + bytes(each ^ 1 for each in end[:1]) + end[1:],
        "invalid UTF-8": start + b"\xff\xfe" + end,
        "NUL bytes": start + b"\0\0" + end,
        "byte order mark": b"\xef\xbb\xbf" + content,
        "UTF-16": content.decode("utf-8", "replace").encode("utf-16", "replace"),
        "surrogates": start + b"\xed\xa0\x80" + end,
        "twice": content + content,
        "nested": b"[" * 100_000,
        "other bytes": b"\x00\xff\xfe\x1b" * 50,
    }
    for name, changed in made.items():
        yield Change(name, lambda path, changed=changed: path.write_bytes(changed))
    yield Change("10 MB more", lambda path: path.write_bytes(content + b"x" * LONG))
    yield Change("missing", Path.unlink)
    secret = outside / "secret.txt"
    yield Change("link to a secret", lambda path: _replaced(path, lambda: path.symlink_to(secret)))
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
    yield from _changed_documents(json.loads(path.read_bytes()))


def line_fields(path: Path) -> Iterator[Field]:
    """The fields of JSON Lines, each in the first line that has it."""
    yield from _line_fields(path.read_bytes())


def compressed_line_fields(path: Path) -> Iterator[Field]:
    """The fields of compressed JSON Lines, and too many lines."""
    unpacked = zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True).read()
    for name, content in _line_fields(unpacked):
        yield name, lambda content=content: zstandard.compress(content())
    yield "lines: 80 MB", lambda: zstandard.compress(b"\n" * (80 << 20))
    yield "lines: of zeros", lambda: zstandard.compress(b"\0" * (1 << 20))


def _line_fields(content: bytes) -> Iterator[Field]:
    lines = content.split(b"\n")
    seen: set[str] = set()
    for number, line in enumerate(lines):
        fields = list(_changed_documents(json.loads(line))) if line.strip() else []
        for name, text in fields:
            if name not in seen:
                yield name, lambda text=text, n=number: b"\n".join([*lines[:n], text(), *lines[n + 1 :]])
        seen |= {name for name, _ in fields}


def _changed_documents(document: Any) -> Iterator[Field]:
    """The JSON texts of a document, each with one field changed."""
    for way, value in _places(document):
        name = ".".join("*" if isinstance(key, int) else key for key in way)
        texts: dict[str, str | None] = {what: JSON[what] for what in _others(value)}
        if isinstance(value, list) and value:
            texts["10,000 times"] = f"[{', '.join([json.dumps(value[0])] * 10_000)}]"
        if isinstance(way[-1], str):
            texts["twice"] = f"{json.dumps(value)},{json.dumps(way[-1])}:null"
        texts["missing"] = None
        for what, text in texts.items():
            yield f"{name}: {what}", lambda way=way, text=text: _with(document, way, text)


def _others(value: Any) -> dict[str, Any]:
    """What a field may hold in place of a value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return TYPES | NUMBERS
    return TYPES | TEXTS if isinstance(value, str) else TYPES


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


def _with(document: Any, way: tuple[str | int, ...], text: str | None) -> bytes:
    """The document with another JSON text at one place, or without it."""
    changed = json.loads(json.dumps(document))
    place = changed
    for key in way[:-1]:
        place = place[key]
    if text is None:
        del place[way[-1]]
    else:
        place[way[-1]] = _HOLE
    return json.dumps(changed).replace(json.dumps(_HOLE), text or "", 1).encode()


def toml_fields(path: Path) -> Iterator[Field]:
    """The values of a TOML file, each on a line of its own."""
    content = path.read_text(encoding="utf-8")
    literals = JSON | {"nan": "nan", "Infinity": "inf", "date": "1979-05-27", "nested": "[" * 3_000}
    for found in re.finditer(r"^([\w.-]+) = (.*)$", content, re.MULTILINE):
        for what, text in (literals | {"missing": "", "twice": f"{found[2]}\n{found[0]}"}).items():
            start = content[: found.start() if what == "missing" else found.start(2)]
            end = content[found.end() :]
            yield f"{found[1]}: {what}", lambda parts=(start, text, end): "".join(parts).encode()


def csv_fields(path: Path) -> Iterator[Field]:
    """The columns of a CSV file: the cell of the first row, and the column itself."""
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    if len(rows) < 2:
        return

    def written(changed: list[list[str]]) -> bytes:
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows(changed)
        return stream.getvalue().encode("utf-8", "surrogatepass")

    for column, name in enumerate(rows[0]):
        for what, value in (NUMBERS | TEXTS).items():
            row = [str(value) if place == column else cell for place, cell in enumerate(rows[1])]
            yield f"{name}: {what}", lambda row=row: written([rows[0], row, *rows[2:]])
        without = [row[:column] + row[column + 1 :] for row in rows]
        twice = [[*row, *row[column : column + 1]] for row in rows]
        yield f"{name}: missing", lambda rows=without: written(rows)
        yield f"{name}: twice", lambda rows=twice: written(rows)


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
            # 10 MB in every row that has the same value could fill the memory.
            first = f'"{names[0]}" IN (SELECT "{names[0]}" FROM "{table}" LIMIT 1)'
            for what, value in VALUES.items():
                where = first if what == "10 MB" else one
                statement = f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE {where}'
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
    for number in (0, -1, 99):
        yield f"application_id: {number}", _executed(path, f"PRAGMA application_id = {number}")


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
