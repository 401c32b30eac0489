"""Remove credentials from the command and the settings that a run records.

1. Passwords are collected from every URL in the record and from the value of every field or flag that expects
   a URL.
2. User names and passwords are removed from all URLs in the record and the command.
3. API keys that are set in environment variables are removed from every string. The passwords collected in
   step 1 are removed from all strings except those that identify the run, such as names. Names are kept,
   because a password such as "hybrid" may also be the name of a system.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from branchrank.io.printable import (
    ONE_URL,
    Redactor,
    bare_url,
    environment_secrets,
    hide_credentials,
    is_url,
    means_url,
    url_secrets,
    value_to_show,
)
from branchrank.records import Record

R = TypeVar("R", bound=Record)
#: Fields that identify the run (such as names). Text in these fields is kept even if it equals a password.
_IDENTITY = {
    *("status", "mode", "split", "predictors", "indexes", "origins", "digests"),
    *("corpus", "corpus_digest", "questions_file", "questions_digest", "question_ids"),
}


def scrubbed(record: R, environment: Mapping[str, str]) -> R:
    """Return the record without the API keys in ``environment`` and without the credentials in URLs.

    A ``command`` field is split into words as a shell would split it.
    """
    fields = msgspec.to_builtins(record)
    words = _words(fields.pop("command")) if "command" in fields else None
    urls = [text for name, text in _strings(fields) if is_url(text) or means_url(name)]
    urls += [text for name, _, text in words or () if ONE_URL.search(text) or means_url(name)]
    learned = {secret for url in urls for secret in url_secrets(url)}
    redact = Redactor((*environment_secrets(environment), *learned))

    def scrub(name: str, text: str) -> str:
        return hide_credentials(value_to_show(name, text), environment)

    def scrub_fully(name: str, text: str) -> str:
        return redact(scrub(name, text))

    kept = {
        name: _each(name, value, scrub if name in _IDENTITY else scrub_fully)
        for name, value in fields.items()
    }
    if words is not None:
        kept["command"] = shlex.join(start + scrub_fully(flag, bare_url(rest)) for flag, start, rest in words)
    return msgspec.convert(kept, type(record))


def _words(command: str) -> list[tuple[str, str, str]]:
    """Split a command into words, and return a tuple ``(flag, prefix, rest)`` for each word.

    If ``FLAG`` expects a URL, the tuple for the word ``FLAG=VALUE`` is ``(FLAG, "FLAG=", VALUE)``, and the
    tuple for a word ``VALUE`` after ``FLAG`` is ``(FLAG, "", VALUE)``. For any other word, the tuple is
    ``("", "", word)``. A command that a shell could not split is treated as one word.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return [("", "", command)]
    result = []
    for before, word in zip(["", *words], words, strict=False):
        flag, equals, value = word.partition("=")
        if equals and means_url(flag):
            result.append((flag, flag + equals, value))
        else:
            result.append((before if before.startswith("-") and means_url(before) else "", "", word))
    return result


def _strings(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield a pair (field name, string) for every string in a nested structure."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(item, key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item, name)


def _each(name: str, value: Any, change: Callable[[str, str], str]) -> Any:
    """Apply ``change`` to every string in a structure, except field names."""
    if isinstance(value, str):
        return change(name, value)
    if isinstance(value, dict):
        return {key: _each(key, item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each(name, item, change) for item in value]
    return value
