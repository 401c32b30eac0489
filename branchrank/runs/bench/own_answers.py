"""Check what a user's class or endpoint returned: valid hits, and not too many of them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import msgspec

from branchrank.core.errors import UsageError
from branchrank.core.records import Answer, Hit, LLMUse, Passage

MOST_HITS = 10_000
MOST_LINES = 10_000_000  # a hit beyond this line number is an error of the predictor


def answer_of(returned: Any) -> Answer:
    """Check what a user's ``retrieve`` returned, and return it as an :class:`Answer`.

    Raises :class:`UsageError` for anything that is not a list of hits, for more than :data:`MOST_HITS` hits,
    and for an invalid LLM call.
    """

    def wrong(what: str) -> UsageError:
        return UsageError(f"retrieve() returned {what}", remedy="return a list of Hit records")

    found, calls = (returned.hits, returned.calls) if isinstance(returned, Answer) else (returned, ())
    if not isinstance(found, Iterable) or isinstance(found, str):
        raise wrong(f"{type(found).__name__}, not a list of branchrank.core.records.Hit")
    hits: list[Hit | Passage] = []
    for rank, hit in enumerate(islice(found, MOST_HITS + 1), start=1):
        passage = Passage(text=hit) if isinstance(hit, str) else hit
        if not isinstance(passage, Hit | Passage):
            raise wrong(f"{type(hit).__name__}, not branchrank.core.records.Hit or Passage")
        try:
            hits.append(checked_hit(passage, rank))
        except (TypeError, ValueError) as error:
            raise wrong(f"an invalid hit: {error}") from error
    if len(hits) > MOST_HITS:
        raise wrong(f"more than {MOST_HITS:,} hits")
    try:
        uses = msgspec.json.decode(msgspec.json.encode(list(calls)), type=tuple[LLMUse, ...])
    except (TypeError, ValueError) as error:
        raise wrong(f"an invalid LLM call: {error}") from error
    return Answer(hits=hits, calls=uses)


def tools_parameter(retrieve: Callable[..., Any]) -> str:
    """Return the name of the parameter that gets the tools: ``tools``, or a third one that is required."""
    try:
        found = inspect.signature(retrieve).parameters
    except (TypeError, ValueError):
        return ""
    if "tools" in found:
        return "tools"
    third = [each for each in [*found.values()][2:3] if each.default is each.empty]
    return "".join(
        each.name for each in third if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    )


def checked_hit(hit: Hit | Passage, rank: int) -> Hit | Passage:
    """Return the hit with its numbers converted to plain Python types, so that a row can store the hit.

    A score that is not finite is replaced by ``1 / rank``. A passage becomes a hit if it names its source and
    lines, and a hit without lines becomes a passage. Raises ``ValueError`` or ``TypeError`` for an invalid
    hit. Raises ``OverflowError``, which makes only the current question fail, for a line number larger than
    ``MOST_LINES``.
    """
    for name in ("id", "text", "plain"):
        if not isinstance(getattr(hit, name, ""), str):
            raise TypeError(f"its {name} is {type(getattr(hit, name)).__name__}, not str")
    if not isinstance(hit.source, str) and not (hit.source is None and isinstance(hit, Passage)):
        raise TypeError(f"its source is {type(hit.source).__name__}, not str")
    first, last, score = hit.line_start, hit.line_end, float(hit.score)
    score = score if math.isfinite(score) else 1 / rank
    if hit.source is None or first is None or last is None:
        known = {name: getattr(hit, name) for name in Passage.__struct_fields__}
        return msgspec.json.decode(msgspec.json.encode(known | {"score": score}), type=Passage)
    if isinstance(hit, Passage):
        hit = Hit(
            id=hit.id, source=hit.source, line_start=first, line_end=last, text=hit.text, score=hit.score
        )
    plain = msgspec.structs.replace(
        hit,
        line_start=int(hit.line_start),
        line_end=int(hit.line_end),
        score=score,
        distance=None if hit.distance is None or math.isnan(hit.distance) else float(hit.distance),
    )
    checked = msgspec.json.decode(msgspec.json.encode(plain), type=Hit)
    if not 1 <= checked.line_start <= checked.line_end:
        raise ValueError(
            f"lines {checked.line_start}..{checked.line_end} are not a valid span (1 <= start <= end)"
        )
    if checked.line_end > MOST_LINES:
        raise OverflowError(
            f"lines {checked.line_start}..{checked.line_end} of {checked.source!r}: "
            f"the last line number of a hit must be at most {MOST_LINES}"
        )
    return checked
