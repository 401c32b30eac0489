"""Make text safe to print and to store.

1. Control characters from documents, file names and servers are replaced before the text is printed.
2. API keys and passwords are removed from text that is printed, logged or stored, because a server's error
   message, for example, can contain the key that the server received. Each secret is recognized unchanged,
   URL-encoded and JSON-escaped.
3. If a text is a single URL, everything between ``://`` and the last ``@`` counts as credentials. A URL that
   is only part of a text ends at a space, a quote, ``<``, ``>`` or a backslash, although a password can
   contain some of these characters.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import shlex
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, quote_plus, unquote, urlsplit

import msgspec

R = TypeVar("R", bound=msgspec.Struct)
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


class _Shown(dict[int, int]):
    """Maps each code point to the one that is shown. Entries are added when they are first needed."""

    def __missing__(self, code: int) -> int:
        character = chr(code)
        hidden = character not in "\n\t" and unicodedata.category(character) in _HIDDEN
        return self.setdefault(code, 0xFFFD if hidden else code)


_SHOWN = _Shown()
_LINE = str.maketrans({"\n": "\N{REPLACEMENT CHARACTER}", "\t": " "})


def safe(text: str) -> str:
    """Replace every character that is not printable, except newline and tab, with U+FFFD.

    The replaced characters include control characters, escape sequences, bidirectional overrides and
    private-use characters.
    """
    return text.translate(_SHOWN)


def safe_line(text: str) -> str:
    """Replace the characters that :func:`safe` replaces, and also newlines and tabs."""
    return safe(text).translate(_LINE)


def printable_json(value: object) -> bytes:
    """Return a value as JSON in UTF-8, in which the characters that :func:`safe` replaces are escaped."""
    text = msgspec.json.encode(value).decode()
    hidden = (each for each in set(text) if safe(each) != each)
    return text.translate({ord(each): _escaped(each) for each in hidden}).encode()


def _escaped(character: str) -> str:
    return re.sub("....", r"\\u\g<0>", character.encode("utf-16-be").hex())


def encodable(text: str) -> str:
    """Replace each lone surrogate (from an undecodable command-line argument) with ``?``."""
    return text.encode("utf-8", "replace").decode("utf-8")


HIDDEN = "[key]"
_SHORTEST_SECRET = 6
SECRET_NAME = re.compile("key|token|secret|pass|auth|sig|code", re.IGNORECASE)
ONE_URL = re.compile(r"([a-z][a-z0-9+.-]{0,20}://)(.*)", re.IGNORECASE | re.DOTALL)
_PARAMETER = re.compile(r"([?&][^=&#]*(?:key|token|secret|pass|auth|sig|code)[^=&#]*=)[^&#]*", re.IGNORECASE)
#: Matches the names of settings, fields and flags whose value should be a URL.
_URL_NAME = re.compile(r"(?:[\w.-]*[-_.])?(?:url|endpoint)", re.IGNORECASE)
_URL = re.compile(r"([a-z][a-z0-9+.-]{0,20}://)([^\s'\"<>\\]+)", re.IGNORECASE)
_USER = re.compile(r"([a-z][a-z0-9+.-]{0,20}://)[^\s/?#]*@", re.IGNORECASE)
_CHATTY_LOGGERS = ("openai", "httpx", "httpcore")
_KEY_VARIABLES = (
    "BRANCHRANK_LLM_KEY",
    "OPENAI_API_KEY",
    "BRANCHRANK_API_TOKEN",
    "BRANCHRANK_EMBEDDING_KEY",
    "BRANCHRANK_QDRANT_KEY",
    "BRANCHRANK_TOKEN",
)


def environment_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of all environment variables that may contain API keys or tokens."""
    return tuple(environment.get(name, "") for name in _KEY_VARIABLES)


class Redactor:
    """Replaces each known secret in a text with ``[key]``. The ``repr`` does not show the secrets.

    Secrets shorter than six characters are not replaced.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._forms: list[str] = []
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Replace the given secrets, too."""
        forms = {form for secret in secrets if len(secret) >= _SHORTEST_SECRET for form in _forms(secret)}
        self._forms = sorted({*self._forms, *forms}, key=lambda form: (-len(form), form))

    def __call__(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text


def _forms(secret: str) -> set[str]:
    """Return the secret as it is, URL-encoded and JSON-escaped."""
    escaped = {json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    return {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), *escaped}


def is_url(text: str) -> bool:
    """Return whether the whole text is one URL."""
    return ONE_URL.fullmatch(text.strip()) is not None


def means_url(name: str) -> bool:
    """Return whether the setting or flag ``name`` (such as ``index.chroma_url``) takes a URL."""
    return _URL_NAME.fullmatch(name) is not None


def url_to_show(text: str) -> str:
    """Return a URL without secrets, for messages.

    The user name and the password are removed. The values of parameters whose names suggest a secret (such as
    ``api_key``) are replaced with ``[key]``. In a malformed URL, everything between the scheme and the last
    ``@`` is removed.

    >>> url_to_show("http://me:secret-1@[h/v1?api_key=secret-2"), url_to_show("me:secret-1@h")
    ('http://[h/v1?api_key=[key]', 'h')
    """
    return hide_parameters(_without_user(text))


def hide_parameters(text: str) -> str:
    """Replace values of URL parameters whose names suggest secrets (such as ``api_key``) with ``[key]``."""
    return _PARAMETER.sub(rf"\1{HIDDEN}", text)


def value_to_show(name: str, value: str) -> str:
    """Return the value of a setting, field or flag. The credentials of a URL are removed."""
    return url_to_show(value) if is_url(value) or means_url(name) else value


def _without_user(text: str) -> str:
    url = ONE_URL.fullmatch(text.strip())
    scheme, rest = (url[1], url[2]) if url else ("", text)
    return scheme + rest.rpartition("@")[2]


def url_to_keep(text: str) -> str:
    """Return a URL without secrets, for storage in a file.

    The user name, the password, and all parameters whose names suggest a secret (such as ``api_key``) are
    removed.

    >>> url_to_keep("http://me:secret-1@h/v1?api_key=secret-2&v=2")
    'http://h/v1?v=2'
    """
    address, _, query = _without_user(text).partition("?")
    kept = "&".join(each for each in query.split("&") if not SECRET_NAME.search(each.partition("=")[0]))
    return f"{address}?{kept}" if kept else address


def split_url(url: str) -> SplitResult:
    """Split a URL into its scheme, host, port, path, query and fragment.

    If the URL can't be parsed (for example, ``http://[h`` or ``http://h:x``), all parts are empty.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError for a port that is not a number
        return parts
    except ValueError:
        return urlsplit("")


def hide_credentials(text: str, environment: Mapping[str, str]) -> str:
    """Remove the API keys in ``environment``, and the credentials in URLs, from ``text``.

    ``text`` is, for example, a command, a setting or an error message that a run records. The host, the path
    and the non-secret query parameters of each URL are kept.
    """
    if "://" in text:  # searching a long text for a URL takes long
        text = _URL.sub(lambda url: hide_parameters(url[0]), _USER.sub(r"\1", text))
    return Redactor(environment_secrets(environment))(text)


def bare_url(text: str) -> str:
    """Remove the credentials from a URL, or from a string that ends with a URL, such as ``--flag=URL``."""
    return ONE_URL.sub(lambda url: url_to_show(url[0]), text)


def url_secrets(text: str) -> set[str]:
    """Return the secrets in a URL, or in a string that ends with a URL.

    The secrets are the password and the values of query parameters whose names suggest a secret, such as
    ``token``. If a URL has a user name but no password, the user name is a secret. The URL may be malformed.
    """
    match = ONE_URL.search(text)
    rest = match[2] if match else text
    user, _, password = re.split("[/?#]", rest, maxsplit=1)[0].rpartition("@")[0].partition(":")
    written = rest.rpartition("@")[0].partition(":")[2]  # the whole password, even with "/", "?" or "#"
    parameters = parse_qsl(rest.partition("?")[2].partition("#")[0])
    keys = {value for name, value in parameters if SECRET_NAME.search(name)}
    return keys | {form for raw in (password or user, written) for form in (raw, unquote(raw)) if form}


def guard_logs(redact: Callable[[str], str]) -> Callable[[], None]:
    """Install log filters that remove API keys from the log messages of the HTTP libraries.

    The filters are needed because httpx2 logs whole URLs at level INFO. Return a function that uninstalls the
    filters.
    """

    def guard(record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), ()
        return True

    guarded = contextlib.ExitStack()
    for name in list(logging.root.manager.loggerDict):
        if name.startswith(_CHATTY_LOGGERS):
            logging.getLogger(name).addFilter(guard)
            guarded.callback(logging.getLogger(name).removeFilter, guard)
    return guarded.close


def scrubbed(record: R, environment: Mapping[str, str], identity: Collection[str]) -> R:
    """Return the record without the API keys in ``environment`` and without the credentials in URLs.

    Passwords are collected from every URL in the record and from the value of every field or flag that
    expects a URL. User names and passwords are removed from all URLs, API keys from every string. The
    collected passwords are removed from all strings, except in the fields ``identity``, such as names,
    because a password such as "hybrid" may also be the name of a system. A ``command`` field is split into
    words as a shell would split it.
    """
    fields = msgspec.to_builtins(record)
    words = _words(fields.pop("command")) if "command" in fields else None
    urls = [text for name, _, text in words or () if ONE_URL.search(text) or means_url(name)]

    def collect(name: str, text: str) -> str:
        if is_url(text) or means_url(name):
            urls.append(text)
        return text

    _each("", fields, collect)
    learned = {secret for url in urls for secret in url_secrets(url)}
    redact = Redactor((*environment_secrets(environment), *learned))

    def scrub(name: str, text: str) -> str:
        return hide_credentials(value_to_show(name, text), environment)

    def scrub_fully(name: str, text: str) -> str:
        return redact(scrub(name, text))

    kept = {
        name: _each(name, value, scrub if name in identity else scrub_fully) for name, value in fields.items()
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


def _each(name: str, value: Any, change: Callable[[str, str], str]) -> Any:
    """Apply ``change`` to every string in a structure, except field names."""
    if isinstance(value, str):
        return change(name, value)
    if isinstance(value, dict):
        return {key: _each(key, item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each(name, item, change) for item in value]
    return value
