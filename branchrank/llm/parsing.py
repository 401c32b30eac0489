"""Parse an LLM's reply: tolerant of code fences, prose and truncation, strict about the labels it may name.

Pure functions of text. The result contains only labels that the model was shown, whatever it replied.
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
    """Return the first JSON object or array in a text, even inside code fences or prose, or truncated.

    Of a truncated value, everything up to the last complete element is kept. Raises :class:`ReplyError`
    ``"malformed reply"`` when the text contains no JSON.
    """
    text = _FENCE.sub("", text[:_LONGEST])
    for start in _starts(text):
        try:
            return msgspec.json.decode(_completed(text[start:]))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            continue
    raise ReplyError("malformed reply")


def read_labels(text: str, labels: Collection[str], *, may_be_empty: bool = False) -> list[str]:
    """Return the labels that a reply names, in its order; unknown and repeated labels are dropped.

    Labels are read from JSON if the reply contains any, else searched in its words. Raises
    :class:`ReplyError` ``"malformed reply"`` when there is no list, and ``"no known id"`` when it names no
    known label (unless ``may_be_empty`` and the reply holds an explicit empty list).
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
    """Return a reply's plain text on one line.

    Raises :class:`ReplyError` ``"empty reply"`` for an empty one.
    """
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    if not words:
        raise ReplyError("empty reply")
    return words


def yes_probability(logprobs: Mapping[str, float]) -> float:
    """The logit of "yes" against "no" in a token's log-probabilities.

    The probabilities of all spellings of an answer are added. An answer that is not listed counts as less
    likely than every listed token. Raises :class:`ReplyError` when neither answer is listed.
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
    """Yield where a JSON value may start: at the first ``{`` and the first ``[``, in text order."""
    places = sorted(place for place in (text.find("{"), text.find("[")) if place >= 0)
    yield from places


def _completed(text: str) -> str:
    """Return the JSON value at the start of a text.

    A truncated one is cut after its last complete element and closed; the result is empty if there is none.
    """
    closers: list[str] = []
    end = depth = 0  # where the last complete element ends, and its nesting depth
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
    # The brackets that were open at the end of the last complete element are still open.
    return text[:end] + "".join(reversed(closers[:depth]))


def _strings(value: Any) -> Iterator[str]:
    """Yield every string and number in a JSON value, in order; for objects, only their values."""
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
