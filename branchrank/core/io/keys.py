"""Decide which API key is sent to which server, and which requests BranchRank's own server answers.

1. The user name, password and query parameters in an endpoint's URL are sent with each request. Messages show
   URLs without credentials.
2. Each of ``BRANCHRANK_LLM_KEY``, ``BRANCHRANK_EMBEDDING_KEY``, ``BRANCHRANK_QDRANT_KEY`` and
   ``BRANCHRANK_API_TOKEN`` is sent only to the host in the variable with ``_HOST`` at its end (such as
   ``BRANCHRANK_LLM_KEY_HOST``). Without this variable, the key for embeddings is sent only to the host of
   ``BRANCHRANK_INDEX_EMBEDDING_URL``, the key for Qdrant only to the host of ``BRANCHRANK_QDRANT_URL``, and
   the key for LLMs and the token only to an endpoint from a command-line flag or an environment variable. A
   URL in a workspace's configuration file or in an experiment file therefore can't cause a key to be sent to
   another host.
3. ``OPENAI_API_KEY`` is sent only to api.openai.com over HTTPS.
4. By default BranchRank's server binds to the loopback interface. On any other address it needs a token,
   which every request must send in the header ``Authorization: Bearer TOKEN``.
5. The ``Host`` header of a request must contain a loopback name, the server's address, or an allowed name.
   This prevents DNS rebinding, in which another website reaches the server through a host name that resolves
   to this machine. The ``Origin`` header, which browsers send, must contain an allowed origin. By default no
   origin is allowed.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlunsplit

from branchrank.core.errors import UsageError
from branchrank.core.io.printable import SECRET_NAME, split_url, url_to_show
from branchrank.core.io.text_files import read_text
from branchrank.core.records import Record

Service = Literal["LLM", "EMBEDDING", "QDRANT", "API"]

_OPENAI_HOST = "api.openai.com"
#: The environment variables with the URL of each service. The service's key may be sent to the URL's host.
_URL_VARIABLES = {"EMBEDDING": "BRANCHRANK_INDEX_EMBEDDING_URL", "QDRANT": "BRANCHRANK_QDRANT_URL"}
VARIABLE = "BRANCHRANK_TOKEN"
TOKEN_LENGTH = 16
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

_TOKEN = re.compile(r"[!-~]+")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/@\[\]]+)(?::\d{1,5})?")


def key_for(service: Service, url: str, environment: Mapping[str, str], *, explicit: bool = False) -> str:
    """Return the API key that may be sent to ``url``, or an empty string if no key may be sent.

    ``explicit`` is true if the URL comes from a command-line flag or an environment variable, and the key may
    therefore be sent to the URL if no other host is set. Raises :class:`UsageError` if the key for Qdrant
    would be sent to another machine without encryption.
    """
    parts = split_url(url)
    variable = f"BRANCHRANK_{service}_{'TOKEN' if service == 'API' else 'KEY'}"
    key = environment.get(variable, "")
    own_host = environment.get(f"{variable}_HOST", "").lower()
    named = split_url(environment.get(_URL_VARIABLES.get(service, ""), "")).hostname
    hosts = (parts.hostname, parts.netloc.rpartition("@")[2].lower())
    if key and parts.hostname and (own_host in hosts if own_host else explicit or named == parts.hostname):
        if service == "QDRANT" and parts.scheme != "https" and not is_loopback(parts.hostname):
            raise UsageError(
                f"the key for {url_to_show(url)} would be sent without encryption",
                remedy="use a URL that starts with https://",
            )
        return key
    if service not in ("QDRANT", "API") and parts.hostname == _OPENAI_HOST and parts.scheme == "https":
        return environment.get("OPENAI_API_KEY", "")
    return ""


class Endpoint:
    """The base URL of an HTTP server and its credentials. The ``repr`` does not show the credentials.

    Raises :class:`UsageError` if ``base_url`` is not an HTTP URL.
    """

    def __init__(self, base_url: str, *, key: str = "") -> None:
        parts = split_url(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"{url_to_show(base_url)!r} is not the base URL of an endpoint",
                remedy="use an http or https URL such as http://127.0.0.1:8080/v1",
            )
        self.url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
        #: The query parameters that are sent with each request.
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self._key = key
        self._password = unquote(parts.password or "") or unquote(parts.username or "")
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        self._basic = base64.b64encode(pair.encode()).decode() if self._password else ""

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"

    @property
    def authorization(self) -> str | None:
        """The ``Authorization`` header, or ``None`` if there are no credentials.

        A user name or password in the URL takes precedence over the API key.
        """
        if self._basic:
            return f"Basic {self._basic}"
        return f"Bearer {self._key}" if self._key else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The API key, the password and the values of the secret query parameters of this endpoint."""
        keys = [value for name, value in self.query.items() if SECRET_NAME.search(name)]
        return tuple(filter(None, (self._key, self._password, self._basic, *keys)))


def open_endpoint(
    service: Service, base_url: str, environment: Mapping[str, str], *, explicit: bool = False
) -> Endpoint:
    """Return the endpoint at ``base_url`` with the key that :func:`key_for` selects.

    Raises :class:`UsageError` if ``base_url`` is not an HTTP URL.
    """
    return Endpoint(base_url, key=key_for(service, base_url, environment, explicit=explicit))


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is a loopback address, which can be reached only from this machine.

    Every host name except ``localhost`` is treated as reachable from other machines.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost.example.org")
    (True, False)
    """
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access(Record, frozen=True, kw_only=True):
    """A server's access rules.

    ``hosts`` contains names, which allow each port, and names with a port. If ``token`` is empty, requests
    need no token.
    """

    hosts: tuple[str, ...] = LOOPBACK_NAMES
    origins: tuple[str, ...] = ()
    token: str = ""

    def answers_host(self, values: Sequence[str]) -> bool:
        """Return whether the ``Host`` header, with or without its port, is one of this server's names."""
        match = _HOST.fullmatch(values[0].lower()) if len(values) == 1 else None
        return match is not None and not {match[0], match[1]}.isdisjoint(self.hosts)

    def answers_origin(self, values: Sequence[str]) -> bool:
        """Return whether the request has no ``Origin`` header or an allowed one."""
        return not values or (len(values) == 1 and values[0].lower() in self.origins)

    def answers_token(self, values: Sequence[str]) -> bool:
        """Return whether the ``Authorization`` header contains the token, with a constant-time comparison."""
        if not self.token:
            return True
        scheme, _, given = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token.encode())
        return scheme.lower() == "bearer" and same


def access_for(
    host: str, *, token: str = "", allowed_hosts: Sequence[str] = (), allowed_origins: Sequence[str] = ()
) -> Access:
    """Return the access rules for a server bound to ``host``.

    Raises :class:`UsageError` if a server that other machines can reach has no token, or if a server bound to
    all addresses has no allowed host.
    """
    loopback = is_loopback(host)
    if not loopback and not token:
        raise UsageError(
            f"other machines can reach a server at {host}, so it needs a token",
            remedy=f"set {VARIABLE} (or --token-file) to a secret of {TOKEN_LENGTH} characters or more",
        )
    hosts = [name.lower() for name in allowed_hosts]
    if host in ("0.0.0.0", "::", "") and not hosts:  # noqa: S104 - compared, not bound
        raise UsageError(
            f"a server at {host or 'every address'} needs the host name that clients use",
            remedy="give the host name with --allowed-host",
        )
    own = LOOPBACK_NAMES if loopback else ()
    return Access(
        hosts=tuple(dict.fromkeys((*own, bracketed(host.lower()), *hosts))),
        origins=tuple(origin.lower() for origin in allowed_origins),
        token=token,
    )


def bracketed(host: str) -> str:
    """Return a host as it appears in a URL, with brackets around an IPv6 address."""
    return f"[{host}]" if ":" in host else host


def read_token(token_file: Path | None, environment: Mapping[str, str] | None = None) -> str:
    """Read the token from a file or an environment variable, or return "" if neither of them is set.

    Raises :class:`UsageError` if the file can't be read or the token is invalid. A valid token consists of at
    least 16 visible ASCII characters.
    """
    where = f"the token in {token_file or VARIABLE}"
    if token_file is None:
        token = (os.environ if environment is None else environment).get(VARIABLE, "").strip()
        if not token:
            return ""
    else:
        try:
            token = read_text(token_file, error=UsageError).strip()
        except OSError as error:
            raise UsageError(
                f"{where} can't be read: {error}", remedy=f"write the token to {token_file} as plain text"
            ) from None
    if len(token) < TOKEN_LENGTH or _TOKEN.fullmatch(token) is None:
        raise UsageError(
            f"{where} must be {TOKEN_LENGTH} or more visible ASCII characters",
            remedy="make a token with python3 -c 'import secrets; print(secrets.token_urlsafe())'",
        )
    return token
