"""Removing credentials from the command and the settings that a run records.

1. Passwords are collected from every string that is a URL and from the words of the command.
2. A string that is a URL loses its credentials as a whole; so does each word of the command.
3. The environment's keys are removed from every string. The passwords are removed from every string except
   those that identify the run: a password such as "hybrid" would make them unreadable.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from branchrank.llm.secrets import bare_url, hide_credentials, url_secrets
from branchrank.records import Record
from branchrank.redactor import Redactor, environment_secrets, is_url

R = TypeVar("R", bound=Record)
#: Fields that the program writes and reads again: names, digests and states.
_IDENTITY = {
    *("status", "mode", "split", "predictors", "indexes", "origins", "digests"),
    *("corpus", "corpus_digest", "questions_file", "questions_digest", "question_ids"),
}


def scrubbed(record: R, environment: Mapping[str, str]) -> R:
    """Return the record without the environment's keys and without the credentials of its URLs.

    A field ``command`` is split into words as a shell would split it.
    """
    fields = msgspec.to_builtins(record)
    words = _words(fields.pop("command")) if "command" in fields else None
    urls = [text for text in _strings(fields) if is_url(text)]
    learned = {secret for url in (*urls, *(words or ())) for secret in url_secrets(url)}
    redact = Redactor((*environment_secrets(environment), *learned))

    def scrub(text: str) -> str:
        return hide_credentials(bare_url(text) if is_url(text) else text, environment)

    def scrub_fully(text: str) -> str:
        return redact(scrub(text))

    kept = {name: _each(value, scrub if name in _IDENTITY else scrub_fully) for name, value in fields.items()}
    if words is not None:
        kept["command"] = shlex.join(scrub_fully(bare_url(word)) for word in words)
    return msgspec.convert(kept, type(record))


def _words(command: str) -> list[str]:
    """Split a command into words; a command that a shell could not split is one word."""
    try:
        return shlex.split(command)
    except ValueError:
        return [command]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _each(value: Any, change: Callable[[str], str]) -> Any:
    """Return the same structure with every string changed; field names stay as they are."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _each(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each(item, change) for item in value]
    return value
