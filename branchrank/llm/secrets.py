"""Send API keys for LLM endpoints only to the right hosts, and remove API keys from logs and messages.

1. The user name, password and query parameters in an endpoint's URL are sent with each request. Messages show
   URLs without credentials.
2. ``OPENAI_API_KEY`` is sent only to api.openai.com over HTTPS. ``BRANCHRANK_LLM_KEY`` is sent only to the
   host ``BRANCHRANK_LLM_KEY_HOST``. If ``BRANCHRANK_LLM_KEY_HOST`` is not set, ``BRANCHRANK_LLM_KEY`` is sent
   only to an endpoint from a command-line flag or an environment variable, and never to an endpoint from a
   file in the workspace.
3. A :class:`~branchrank.io.redactor.Redactor` removes API keys from all text that the LLM client returns or
   logs.
4. If a text is a single URL, everything between ``://`` and the last ``@`` counts as credentials. A URL that
   is only part of a text ends at a space, a quote, ``<``, ``>`` or a backslash, although a password can
   contain some of these characters.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, unquote, urlunsplit

from branchrank.errors import UsageError
from branchrank.io.redactor import (
    ONE_URL,
    SECRET_NAME,
    Redactor,
    environment_secrets,
    hide_parameters,
    split_url,
    url_to_show,
)

OPENAI_HOST = "api.openai.com"
_URL = re.compile(r"([a-z][a-z0-9+.-]{0,20}://)([^\s'\"<>\\]+)", re.IGNORECASE)
_USER = re.compile(r"([a-z][a-z0-9+.-]{0,20}://)[^\s/?#]*@", re.IGNORECASE)
_CHATTY_LOGGERS = ("openai", "httpx", "httpcore")


class Endpoint:
    """An OpenAI-compatible endpoint and its credentials. The ``repr`` does not show the credentials."""

    def __init__(self, base_url: str, *, key: str = "") -> None:
        parts = split_url(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"{url_to_show(base_url)!r} is not the URL of an LLM endpoint",
                remedy="give a base URL such as http://127.0.0.1:8080/v1",
            )
        self.host = parts.hostname
        self.https = parts.scheme == "https"
        netloc = parts.netloc.rpartition("@")[2]
        self.netloc = netloc
        self.url = urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
        self._query = parse_qsl(parts.query, keep_blank_values=True)
        self._user = unquote(parts.username or "")
        self._password = unquote(parts.password or "")
        self._key = key

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"

    @property
    def query(self) -> dict[str, str]:
        """The query parameters that are sent with each request."""
        return dict(self._query)

    @property
    def authorization(self) -> str | None:
        """The ``Authorization`` header, or ``None`` if there are no credentials.

        A user name or password in the URL takes precedence over the API key.
        """
        if self._user or self._password:
            pair = f"{self._user}:{self._password}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        return f"Bearer {self._key}" if self._key else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The API key, the password and the values of the secret query parameters of this endpoint."""
        keys = [value for name, value in self._query if SECRET_NAME.search(name)]
        return (self._key, self._password or self._user, *keys)


def open_endpoint(base_url: str, environment: Mapping[str, str], *, explicit: bool) -> Endpoint:
    """Return the endpoint, with an API key if ``environment`` contains a key for this endpoint.

    ``explicit`` is true if the URL comes from a command-line flag or an environment variable, and false if
    the URL comes from a file in the workspace. Raises :class:`UsageError` if ``base_url`` is not an HTTP URL.
    """
    bare = Endpoint(base_url)
    own_key = environment.get("BRANCHRANK_LLM_KEY", "")
    own_host = environment.get("BRANCHRANK_LLM_KEY_HOST", "").lower()
    if own_key and (bare.netloc.lower() == own_host or bare.host == own_host if own_host else explicit):
        return Endpoint(base_url, key=own_key)
    if bare.host == OPENAI_HOST and bare.https:
        return Endpoint(base_url, key=environment.get("OPENAI_API_KEY", ""))
    return bare


def hide_credentials(text: str, environment: Mapping[str, str]) -> str:
    """Remove the API keys in ``environment``, and the credentials in URLs, from ``text``.

    ``text`` is, for example, a command, a setting or an error message that a run records. The host, the path
    and the non-secret query parameters of each URL are kept.
    """
    return Redactor(environment_secrets(environment))(_URL.sub(_bare_url, _USER.sub(r"\1", text)))


def _bare_url(match: re.Match[str]) -> str:
    scheme, rest = match.group(1), match.group(2)
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    shown = authority.rpartition("@")[2]
    return scheme + shown + hide_parameters(rest[len(authority) :])


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


class _RedactingFilter(logging.Filter):
    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = self._redact(record.getMessage())
        record.args = ()
        return True


def guard_logs(redact: Callable[[str], str]) -> Callable[[], None]:
    """Install log filters that remove API keys from the log messages of the HTTP libraries.

    The filters are needed because httpx logs whole URLs at level INFO. Return a function that uninstalls the
    filters.
    """
    guard = _RedactingFilter(redact)
    names = [name for name in logging.root.manager.loggerDict if name.startswith(_CHATTY_LOGGERS)]
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addFilter(guard)

    def end() -> None:
        for logger in loggers:
            logger.removeFilter(guard)

    return end
