"""Reading an LLM's words: tolerant of fences, prose and truncation, strict about what may be named.

Pure functions over text. Whatever a model says, the result names only what it was shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from branchrank.llm.request import ReplyError

_FENCE = re.compile(r"```[a-zA-Z]*\n?")
_LONGEST = 200_000
_WORD = re.compile(r"[A-Za-z0-9_]+")


def read_json(text: str) -> Any:
    """The first JSON object or array in a text, also inside fences or prose, also cut short.

    Of a truncated value, everything up to the last complete element is kept. Raises :class:`ReplyError`
    ``"malformed reply"`` when there is none.
    """
    text = _FENCE.sub("", text[:_LONGEST])
    for start in _starts(text):
        try:
            return msgspec.json.decode(_completed(text[start:]))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            continue
    raise ReplyError("malformed reply")


def read_labels(text: str, labels: Collection[str], *, may_be_empty: bool = False) -> list[str]:
    """The labels that a reply names, in its order; unknown and repeated ones are dropped.

    JSON is read where there is some, else labels are searched in the words. Raises :class:`ReplyError`:
    ``"malformed reply"`` without any list, ``"no known id"`` when nothing known is named (unless
    ``may_be_empty`` and the reply holds an explicit empty list).
    """
    known = {label.lower(): label for label in labels}
    try:
        value = read_json(text)
    except ReplyError:
        named = [known[word] for word in _words(text) if word in known]
        if named:
            return list(dict.fromkeys(named))
        raise
    words = [word.strip().lower() for word in _strings(value)]
    named = list(dict.fromkeys(known[word] for word in words if word in known))
    if not named and not (may_be_empty and not words):
        raise ReplyError("no known id")
    return named


def read_text(text: str) -> str:
    """A reply in plain words on one line. Raises :class:`ReplyError` ``"empty reply"`` for none."""
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    if not words:
        raise ReplyError("empty reply")
    return words


def yes_probability(logprobs: Mapping[str, float]) -> float:
    """The logit of "yes" against "no" in a token's log-probabilities.

    Each side sums the probabilities of its spellings; a side that isn't listed counts as less likely
    than everything listed. Raises :class:`ReplyError` when neither side is there.
    """
    sides: dict[str, list[float]] = {"yes": [], "no": []}
    for token, logprob in logprobs.items():
        word = token.strip().lower()
        if word in sides:
            sides[word].append(logprob)
    if not any(sides.values()):
        raise ReplyError("no log-probabilities")
    floor = min(logprobs.values()) - 1.0
    yes, no = (_log_sum(sides[side]) if sides[side] else floor for side in ("yes", "no"))
    return yes - no


def _log_sum(logprobs: list[float]) -> float:
    largest = max(logprobs)
    return largest + math.log(sum(math.exp(logprob - largest) for logprob in logprobs))


def _starts(text: str) -> Iterator[int]:
    """Where a JSON value may begin: the first brace or bracket, and then the next kind of it."""
    places = sorted(place for place in (text.find("{"), text.find("[")) if place >= 0)
    yield from places


def _completed(text: str) -> str:
    """The JSON with which a text begins, or as much of it as was finished, closed; empty for none."""
    closers: list[str] = []
    end = depth = 0  # where the last complete element ends, and how deep it stands
    quoted = escaped = False
    for position, letter in enumerate(text, start=1):
        if quoted:
            if escaped or letter == "\\":
                escaped = not escaped
            elif letter == '"':
                quoted = False
                end, depth = position, len(closers)
        elif letter == '"':
            quoted = True
        elif letter in "{[":
            closers.append("}" if letter == "{" else "]")
        elif letter in "}]":
            if closers.pop() != letter:
                break
            end, depth = position, len(closers)
            if not closers:
                break
    # What was open where the last element ended still is, or that element would have ended later.
    return text[:end] + "".join(reversed(closers[:depth]))


def _strings(value: Any) -> Iterator[str]:
    """Every string and number in a JSON value, in order; of objects, the values."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield str(item)
        elif isinstance(item, list):
            waiting.extend(reversed(item))
        elif isinstance(item, dict):
            waiting.extend(reversed(item.values()))


def _words(text: str) -> Iterator[str]:
    return (match.group().lower() for match in _WORD.finditer(text[:_LONGEST]))
