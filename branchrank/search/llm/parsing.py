"""Pure functions that parse an LLM's reply, which may contain code fences, prose or truncated JSON.

Labels that were not in the prompt are never returned, whatever the model replied.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from branchrank.search.llm.request import ReplyError

_FENCE = re.compile(r"```[a-zA-Z]*\n?")
_LONGEST = 200_000
_DECODER = json.JSONDecoder()
_WORD = re.compile(r"[A-Za-z0-9_]+")


def read_json(text: str) -> Any:
    """Return the first JSON object or array in a text.

    The JSON may be in code fences or within prose. Raises :class:`ReplyError` with the reason ``"malformed
    reply"`` if the text contains no JSON, or only JSON that is truncated.
    """
    text = _FENCE.sub("", text[:_LONGEST])
    for start in sorted(text.find(bracket) for bracket in "{[" if bracket in text):
        try:
            _, end = _DECODER.raw_decode(text, start)
            return msgspec.json.decode(text[start:end])
        except (ValueError, RecursionError):
            continue
    raise ReplyError("malformed reply")


def read_labels(text: str, labels: Collection[str], *, may_be_empty: bool = False) -> list[str]:
    """Return the prompt's labels that occur in a reply, in the order of the reply and without duplicates.

    Labels are read from the JSON in the reply. If the reply contains no complete JSON, labels are read from
    the words of the reply. If ``may_be_empty`` is true, an empty JSON list is accepted.

    Raises :class:`ReplyError` with the reason ``"malformed reply"`` if the reply contains neither JSON nor
    one of ``labels``. Raises :class:`ReplyError` with the reason ``"no known id"`` if the JSON contains none
    of ``labels``.
    """
    known = {label.lower(): label for label in labels}
    try:
        value = read_json(text)
    except ReplyError:
        words = [word.lower() for word in _WORD.findall(text[:_LONGEST])]
        named = [known[word] for word in words if word in known]
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

    Raises :class:`ReplyError` with the reason ``"empty reply"`` if the reply has no visible characters.
    """
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    if not words:
        raise ReplyError("empty reply")
    return words


def yes_log_odds(logprobs: Mapping[str, float]) -> float:
    """Return the log-odds of "yes" against "no", computed from the log-probabilities of one reply token.

    The probabilities of all spellings of an answer, such as "Yes" and "yes", are added. An answer that is not
    in ``logprobs`` is assumed to be less likely than every token in ``logprobs``. Raises :class:`ReplyError`
    if ``logprobs`` contains neither "yes" nor "no".
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


def _strings(value: Any) -> Iterator[str]:
    """Yield every string and number in a JSON value, in order. The keys of objects are skipped."""
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
