"""Secrets unlike any other text, and a search for every spelling of them in whatever a command leaves."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import random
import re
import sqlite3
import string
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import zstandard

#: Characters of a secret in the long form: what HTML, JSON, TOML, shells, URLs and CSV treat specially.
ODD = "\"'<>\\%+&=?/#@:;$`|~!*()[]{},"
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{32,}={0,2}")
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_DEEPEST = 3
#: A stream inflates to at most this many bytes.
_LARGEST = 64 * 1024 * 1024


def canary(draw: random.Random, *, odd: bool = False) -> str:
    """A secret of 24 letters and digits; an ``odd`` one has six special characters in its middle."""
    letters = draw.choices(string.ascii_letters + string.digits, k=24)
    middle = "".join(draw.choices(ODD, k=6)) if odd else ""
    return "Zq" + "".join(letters[:12]) + middle + "".join(letters[12:])


def spellings(secret: str) -> dict[str, bytes]:
    """Every way to write a secret that is searched for, by name."""
    raw = secret.encode()
    found = {
        "raw": raw,
        "reversed case": secret.swapcase().encode(),
        "lower case": secret.lower().encode(),
        "upper case": secret.upper().encode(),
        "backwards": raw[::-1],
        "URL-encoded": quote(secret, safe="").encode(),
        "URL-encoded path": quote(secret).encode(),
        "URL-encoded in full": "".join(f"%{byte:02X}" for byte in raw).encode(),
        "hex": raw.hex().encode(),
        "upper-case hex": raw.hex().upper().encode(),
        "JSON": json.dumps(secret)[1:-1].encode(),
        "JSON escapes": "".join(f"\\u{ord(letter):04x}" for letter in secret).encode(),
        "repr": repr(secret)[1:-1].encode(),
        "UTF-16": secret.encode("utf-16-le"),
    }
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            encoded = encode(b"\0" * shift + raw)
            # The first and last characters also depend on the bytes beside the secret.
            found[f"{encode.__name__} + {shift}"] = encoded[4 if shift else 0 : len(encoded) // 4 * 4 - 4]
    return found


class Search:
    """Looks for some secrets, by name, in bytes and in what is compressed or encoded in them."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._spellings = [
            (f"{name}, {spelling}", form)
            for name, secret in secrets.items()
            for spelling, form in spellings(secret).items()
        ]
        self._any = re.compile(b"|".join(re.escape(form) for _, form in self._spellings))

    def __call__(self, content: bytes, depth: int = 0) -> set[str]:
        """The secrets with the spelling and the encodings in which they were found."""
        found = set()
        if self._any.search(content):
            found = {name for name, form in self._spellings if form in content}
        if depth < _DEEPEST:
            for encoding, inner in _inside(content):
                found |= {f"{name}, in {encoding}" for name in self(inner, depth + 1)}
        return found

    def folder(self, folder: Path) -> dict[str, set[str]]:
        """What is found in the names and the bytes of all files below ``folder``, by relative path."""
        result = {}
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            content = name.encode()
            if path.is_symlink():
                content += b"\n" + str(path.readlink()).encode()
            elif path.is_file():
                content += b"\n" + path.read_bytes() + b"\n" + _rows(path)
            if found := self(content):
                result[name] = found
        return result


def _rows(path: Path) -> bytes:
    """The values of a SQLite file: one that is longer than a page lies in pieces."""
    with path.open("rb") as file:
        if file.read(16) != b"SQLite format 3\0":
            return b""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        values = (
            value for table in tables for row in db.execute(f'SELECT * FROM "{table}"') for value in row
        )
        return b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in values)


def _inside(content: bytes) -> Iterator[tuple[str, bytes]]:
    """What is compressed or base64-encoded in some bytes."""
    for at in _places(content, b"\x1f\x8b\x08"):
        with contextlib.suppress(zlib.error):
            yield "gzip", zlib.decompressobj(31).decompress(content[at:], _LARGEST)
    for start in _ZLIB:
        for at in _places(content, start):
            with contextlib.suppress(zlib.error):
                yield "zlib", zlib.decompressobj().decompress(content[at:], _LARGEST)
    if content[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                yield "zip", archive.read(name)
    for at in _places(content, _ZSTD):
        with contextlib.suppress(zstandard.ZstdError):
            yield "zstd", zstandard.ZstdDecompressor().decompressobj().decompress(content[at:])
    for match in _BASE64.finditer(content):
        text = match[0].rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
        # A text of 4n + 1 characters is not base64; its last character is the next word's.
        text = text[:-1] if len(text) % 4 == 1 else text
        yield "base64", base64.b64decode(text + b"=" * (-len(text) % 4))


def _places(content: bytes, start: bytes) -> Iterator[int]:
    at = content.find(start)
    while at >= 0:
        yield at
        at = content.find(start, at + 1)
