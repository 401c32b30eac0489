"""Read the title and description in the front matter of a page.

The front matter is YAML between ``---`` lines or TOML between ``+++`` lines. Only the keys ``title`` and
``description`` at the top level are parsed, each on its own, by PyYAML and tomllib. Therefore a mistake in
another key has no effect, and the time is limited. A value that is not valid, such as ``Rust: an overview``,
is used as it is written.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import NamedTuple

_ENDS = {"---": ("---", "..."), "+++": ("+++",)}
_KEY = re.compile(r"""(["']?)(title|description)\1\s*+([:=])""")
_MULTILINE_TOML = re.compile(r"""\s*("{3}|'{3})(?!.*\1)""")
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]*(?:\s+#.*)?")
_QUOTED = re.compile(r"""("{3}|'{3}|["'])(.*?)(?:\1)?""", re.DOTALL)
_NULL = ("", "~", "null", "Null", "NULL")
_MAX_VALUE = 2**14
_MAX_BRACKETS = 32


#: The events that PyYAML finds in a mapping from one scalar to another.
_EVENTS_OF_A_SCALAR = 8


class FrontMatter(NamedTuple):
    """The number of lines of the front matter, its title, and the lines of its description.

    ``first_line`` is the number of the description's first line.
    """

    line_count: int = 0
    title: str = ""
    description: Sequence[str] = ()
    first_line: int = 0


def front_matter(lines: Sequence[str]) -> FrontMatter:
    """Read the front matter at the start of a file. If it is never closed, there is none."""
    ends = _ENDS.get(lines[0].rstrip(), ())
    last = next((number for number, line in enumerate(lines) if number and line.rstrip() in ends), 0)
    if not last:
        return FrontMatter()
    found = FrontMatter(last + 1)
    known = set()
    for number in range(1, last):
        if ends == _ENDS["+++"] and lines[number].startswith("["):
            break  # the keys of a table are not at the top level
        if (key := _KEY.match(lines[number])) and key[2] not in known:
            known.add(key[2])
            text, written = _value(lines[number : _end_of_value(lines, number, last, key)], key)
            if key[2] == "title":
                found = found._replace(title=" ".join(text.split()))
            else:
                found = found._replace(description=written, first_line=number + 1)
    return found


def _end_of_value(lines: Sequence[str], number: int, last: int, key: re.Match[str]) -> int:
    """Return the number of the line after the value that starts in the line ``number``."""
    if key[3] == "=":
        quotes = _MULTILINE_TOML.match(lines[number], key.end())
        return 1 + next((n for n in range(number + 1, last) if quotes and quotes[1] in lines[n]), number)
    end = number + 1
    while end < last and (not lines[end].strip() or lines[end][0].isspace()):
        end += 1
    return end


def _value(lines: Sequence[str], key: re.Match[str]) -> tuple[str, Sequence[str]]:
    """Return the text of a value, and its lines as they are written, without quotes."""
    written = [lines[0][key.end() :].strip(), *(line.strip() for line in lines[1:])]
    text = _parsed("\n".join(lines), toml=key[3] == "=")
    if text is None:
        text = "\n".join(written)
    elif not text or not any(written[1:]):
        written = [" ".join(text.split())]
    elif _BLOCK_SCALAR.fullmatch(written[0]):
        written[0] = ""
    elif quoted := _QUOTED.fullmatch("\n".join(written).strip()):
        written = quoted[2].split("\n")
    return text, written


def _parsed(value: str, *, toml: bool) -> str | None:
    """Return the text of a key's value, or ``None`` if it is not valid. A list has no text."""
    import yaml

    if len(value) > _MAX_VALUE or sum(map(value.count, "[{")) > _MAX_BRACKETS:
        return None
    try:
        if toml:
            text = next(iter(tomllib.loads(value).values()))
            return text if isinstance(text, str) else ""
        events = list(yaml.parse(value, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(events[2], yaml.MappingStartEvent):
        return None
    scalar = events[4] if len(events) == _EVENTS_OF_A_SCALAR else None
    if not isinstance(scalar, yaml.ScalarEvent) or (not scalar.style and scalar.value in _NULL):
        return ""
    return str(scalar.value)
