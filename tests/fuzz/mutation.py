"""Change valid inputs: their fields, their lines, their words and their bytes.

Random bytes rarely pass the first check of a reader. A valid file with one odd field passes many, so most
mutations know that a line is JSON, that lines have an order, and that text is made of words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from support.odd_values import ODD_BYTES, ODD_ESCAPES, ODD_NUMBERS, ODD_STRINGS, ODD_TYPES

_WORD = re.compile(rb"[A-Za-z_]+|\d+|\s+|[^\w\s]")
#: Bytes of the longest input.
LONGEST = 1 << 16
_HOLE = "\ue123"
Mutation = Callable[[bytes, Random], bytes]


def mutated(content: bytes, random: Random, others: Sequence[bytes] = (), *, text: bool = True) -> bytes:
    """``content`` after one to four changes; ``others`` are inputs to take pieces from."""
    for _ in range(random.choice((1, 1, 2, 4))):
        if others and random.random() < 0.1:
            content = _spliced(content, random.choice(others), random)
        else:
            content = random.choice(_TEXT if text else _BINARY)(content, random)
    return content[:LONGEST]


def _field(content: bytes, random: Random) -> bytes:
    """Change one value of a JSON document, or of one line of JSON Lines."""
    lines = content.split(b"\n")
    whole = _decoded(content)
    if whole is not None:
        return _changed(whole, random)
    number = random.randrange(len(lines))
    value = _decoded(lines[number])
    if value is None:
        return _word(content, random)
    lines[number] = _changed(value, random)
    return b"\n".join(lines)


def _decoded(content: bytes) -> Any:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) and value else None


def _changed(document: Any, random: Random) -> bytes:
    """The JSON of a document with one of its values changed; texts that no encoder writes are possible."""
    place: Any = document
    while True:
        key = random.choice(list(place) if isinstance(place, dict) else range(len(place)))
        below = place[key]
        if not (isinstance(below, dict | list) and below and random.random() < 0.8):
            break
        place = below
    what = random.randrange(8)
    text = ""
    if what == 0:
        del place[key]
    elif what == 1 and isinstance(place, dict):
        place[random.choice(ODD_STRINGS)] = place.pop(key)
    elif what == 2 and isinstance(place, dict):
        place[key] = _HOLE
        text = f"{json.dumps(below)},{json.dumps(key)}:{random.choice(ODD_TYPES)}"
    elif what == 3:
        place[key] = [below] * random.choice((2, 50)) if isinstance(below, dict) else [below]
    elif what == 4:
        place[key] = random.choice(ODD_STRINGS) + (below if isinstance(below, str) else "")
    else:
        place[key] = _HOLE
        text = random.choice(random.choice((ODD_TYPES, ODD_NUMBERS, ODD_ESCAPES)))
    encoded = json.dumps(document).replace(json.dumps(_HOLE), text, 1)
    return encoded.encode("utf-8", "surrogatepass")


def _line(content: bytes, random: Random) -> bytes:
    """Delete, repeat, swap, indent or cut lines."""
    lines = content.split(b"\n")
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    what = random.randrange(7)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(at, lines[other])
    elif what == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif what == 3:
        lines[at] = random.choice((b" ", b"\t", b"    ", b"> ", b"- ", b"* ", b"# ", b".. ")) + lines[at]
    elif what == 4:
        lines[at] = lines[at][: random.randint(0, len(lines[at]))]
    elif what == 5:
        lines[at : at + 1] = [lines[at]] * random.choice((3, 40))
    else:
        lines[at] = lines[at].lstrip()
    return b"\n".join(lines)


def _word(content: bytes, random: Random) -> bytes:
    """Replace one word, number or sign by an odd one or by another of the input."""
    words = list(_WORD.finditer(content))
    if not words:
        return random.choice(ODD_STRINGS).encode()
    found = random.choice(words)
    made = random.choice(
        (
            random.choice(ODD_NUMBERS).encode(),
            random.choice(ODD_STRINGS).encode(),
            random.choice(ODD_TYPES).encode(),
            random.choice(words)[0],
            found[0] * random.choice((2, 3, 100)),
            b"",
        )
    )
    return content[: found.start()] + made + content[found.end() :]


def _byte(content: bytes, random: Random) -> bytes:
    """Flip, insert, delete, repeat or cut bytes."""
    at = random.randint(0, len(content))
    end = min(len(content), at + random.choice((1, 1, 2, 4, 16, 200)))
    what = random.randrange(6)
    if what == 0:
        return content[:at] + random.randbytes(end - at) + content[end:]
    if what == 1:
        return content[:at] + random.choice(ODD_BYTES) + content[at:]
    if what == 2:
        return content[:at] + content[end:]
    if what == 3:
        return content[:at] + content[at:end] * random.choice((2, 100)) + content[end:]
    if what == 4:
        return content[:at]
    flipped = bytearray(content[at:end])
    for place in range(len(flipped)):
        flipped[place] ^= 1 << random.randrange(8)
    return content[:at] + bytes(flipped) + content[end:]


def _nested(content: bytes, random: Random) -> bytes:
    """Nest a part of the input, or put deep nesting into it."""
    at = random.randint(0, len(content))
    opening, closing = random.choice(
        (
            (b"[", b"]"),
            (b'{"a":', b"}"),
            (b"(", b")"),
            (b"> ", b""),
            (b"- ", b""),
            (b"*", b"*"),
            (b"<b>", b""),
        )
    )
    depth = random.choice((3, 40, 600, 5_000))
    end = random.randint(at, len(content))
    return content[:at] + opening * depth + content[at:end] + closing * depth + content[end:]


def _encoding(content: bytes, random: Random) -> bytes:
    """The same text in another encoding."""
    text = content.decode("utf-8", "replace")
    encoding = random.choice(("utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252"))
    ends = random.choice(("\n", "\r\n", "\r"))
    return text.replace("\n", ends).encode(encoding, "replace")


def _spliced(content: bytes, other: bytes, random: Random) -> bytes:
    at = random.randint(0, len(content))
    start = random.randint(0, len(other))
    return content[:at] + other[start : random.randint(start, len(other))] + content[at:]


_TEXT: tuple[Mutation, ...] = (
    *(_field,) * 6,
    *(_line,) * 3,
    *(_word,) * 4,
    *(_byte,) * 2,
    _nested,
    _encoding,
)
_BINARY: tuple[Mutation, ...] = (_byte,)
