"""Read the data in a pickle without Python's unpickler, so that no class is imported or called.

The local mode of qdrant-client stores every point as a pickle. This module supports only the pickle
operations for plain data and for objects of listed classes, and rejects all other operations with an error.
Each object is read as a dictionary of its fields.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

_FLOATS = re.compile(rb"(?:G.{8})+", re.DOTALL)
_MARK = object()


def read_pickled(content: bytes, records: frozenset[str]) -> Any:
    """Return the value in the pickle ``content``. Objects of the classes in ``records`` become dictionaries.

    ``records`` contains class names of the form ``module.Class``. Raises ``ValueError`` if the pickle
    contains any other class or an unsupported operation, or if it is truncated.
    """
    try:
        return _Reader(content, records).read()
    except (
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        StopIteration,
        RecursionError,
        struct.error,
        UnicodeDecodeError,
    ) as error:
        raise ValueError(f"the pickle does not contain plain data ({type(error).__name__})") from error


class _Reader:
    """A stack machine for the pickle operations that plain data needs in protocols 2 to 5."""

    def __init__(self, content: bytes, records: frozenset[str]) -> None:
        self.content = content
        self.records = records
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def read(self) -> Any:
        while True:
            if found := _FLOATS.match(self.content, self.at):
                values = np.frombuffer(found[0], dtype=[("operation", "u1"), ("value", ">f8")])["value"]
                self.stack += values.tolist()
                self.at = found.end()
            operation = self._take(1)
            if operation == b".":
                (value,) = self.stack
                return value
            if operation not in _OPERATIONS:
                raise ValueError(
                    f"the pickle contains the operation {operation!r}, which plain data does not need"
                )
            _OPERATIONS[operation](self)

    def _take(self, count: int) -> bytes:
        taken = self.content[self.at : self.at + count]
        if len(taken) != count:
            raise ValueError("the pickle ends too early")
        self.at += count
        return taken

    def number(self, layout: str) -> Any:
        (value,) = struct.unpack(layout, self._take(struct.calcsize(layout)))
        return value

    def text(self, layout: str) -> str:
        return self._take(self.number(layout)).decode("utf-8", "surrogatepass")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def marked(self) -> list[Any]:
        """Remove the last mark and the items above it from the stack, and return the removed items."""
        place = len(self.stack) - 1 - next(n for n, each in enumerate(reversed(self.stack)) if each is _MARK)
        above = self.stack[place + 1 :]
        del self.stack[place:]
        return above

    def tuple_of(self, count: int) -> None:
        values = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.push(values)

    def set_items(self, items: list[Any]) -> None:
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def remember(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def name_class(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if f"{module}.{name}" not in self.records:
            raise ValueError(f"the pickle contains a {module}.{name}, which is not plain data")
        self.push(None)

    def new_record(self) -> None:
        if self.stack.pop() != () or self.stack.pop() is not None:
            raise ValueError("the pickle creates an object with arguments, which is not plain data")
        self.push({})

    def build(self) -> None:
        state = self.stack.pop()
        self.stack[-1].update(state.get("__dict__", state))


def _extended(reader: _Reader) -> None:
    items = reader.marked()
    reader.stack[-1].extend(items)


def _appended(reader: _Reader) -> None:
    item = reader.stack.pop()
    reader.stack[-1].append(item)


def _item_set(reader: _Reader) -> None:
    value, key = reader.stack.pop(), reader.stack.pop()
    reader.stack[-1][key] = value


def _added(reader: _Reader) -> None:
    items = reader.marked()
    reader.stack[-1].update(items)


_OPERATIONS: dict[bytes, Callable[[_Reader], object]] = {
    b"\x80": lambda reader: reader.number("<B"),  # protocol
    b"\x95": lambda reader: reader.number("<Q"),  # frame
    b"N": lambda reader: reader.push(None),
    b"\x88": lambda reader: reader.push(True),
    b"\x89": lambda reader: reader.push(False),
    b"J": lambda reader: reader.push(reader.number("<i")),
    b"K": lambda reader: reader.push(reader.number("<B")),
    b"M": lambda reader: reader.push(reader.number("<H")),
    b"\x8a": lambda reader: reader.push(
        int.from_bytes(reader._take(reader.number("<B")), "little", signed=True)
    ),
    b"X": lambda reader: reader.push(reader.text("<I")),
    b"\x8c": lambda reader: reader.push(reader.text("<B")),
    b"\x8d": lambda reader: reader.push(reader.text("<Q")),
    b"}": lambda reader: reader.push({}),
    b"]": lambda reader: reader.push([]),
    b"\x8f": lambda reader: reader.push(set()),
    b")": lambda reader: reader.push(()),
    b"(": lambda reader: reader.push(_MARK),
    b"a": _appended,
    b"e": _extended,
    b"s": _item_set,
    b"u": lambda reader: reader.set_items(reader.marked()),
    b"\x90": _added,
    b"t": lambda reader: reader.push(tuple(reader.marked())),
    b"\x85": lambda reader: reader.tuple_of(1),
    b"\x86": lambda reader: reader.tuple_of(2),
    b"\x87": lambda reader: reader.tuple_of(3),
    b"\x94": lambda reader: reader.remember(len(reader.memo)),
    b"q": lambda reader: reader.remember(reader.number("<B")),
    b"r": lambda reader: reader.remember(reader.number("<I")),
    b"h": lambda reader: reader.push(reader.memo[reader.number("<B")]),
    b"j": lambda reader: reader.push(reader.memo[reader.number("<I")]),
    b"\x93": _Reader.name_class,
    b"\x81": _Reader.new_record,
    b"b": _Reader.build,
}
