"""Decide which API key is sent to which server.

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
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlunsplit

from branchrank.core.errors import UsageError
from branchrank.core.io.printable import SECRET_NAME, split_url, url_to_show

Service = Literal["LLM", "EMBEDDING", "QDRANT", "API"]

_OPENAI_HOST = "api.openai.com"
#: The environment variables with the URL of each service. The service's key may be sent to the URL's host.
_URL_VARIABLES = {"EMBEDDING": "BRANCHRANK_INDEX_EMBEDDING_URL", "QDRANT": "BRANCHRANK_QDRANT_URL"}


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
