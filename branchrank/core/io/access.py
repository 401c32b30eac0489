"""A server's access rules for its address, the ``Host`` and ``Origin`` headers, and the token.

1. By default the server binds to the loopback interface. On any address other than a loopback address, the
   server needs a token.
2. The ``Host`` header must contain a loopback name, the server's address, or an additional allowed name. The
   check of the ``Host`` header prevents DNS rebinding, in which another website reaches the server through a
   host name that resolves to this machine.
3. The ``Origin`` header, which browsers send, must contain an allowed origin. By default no origin is
   allowed.
4. If a token is set, every request must send the header ``Authorization: Bearer TOKEN``.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from branchrank.core.errors import UsageError
from branchrank.core.io.keys import is_loopback
from branchrank.core.io.text_files import read_text
from branchrank.core.records import Record

VARIABLE = "BRANCHRANK_TOKEN"
TOKEN_LENGTH = 16
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

_TOKEN = re.compile(r"[!-~]+")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/@\[\]]+)(?::\d{1,5})?")
_ORIGIN = re.compile(r"https?://(?:\[[0-9a-f:.]+\]|[^\s:/@\[\]]+)(?::\d{1,5})?")


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

    Raises :class:`UsageError` if an allowed host or origin is malformed. Also raises :class:`UsageError` if a
    server that other machines can reach has no token. A server bound to all addresses needs an allowed host.
    """
    loopback = is_loopback(host)
    if not loopback and not token:
        raise UsageError(
            f"other machines can reach a server at {host}, so it needs a token",
            remedy=f"set {VARIABLE} (or --token-file) to a secret of {TOKEN_LENGTH} characters or more",
        )
    hosts = [name.lower() for name in allowed_hosts]
    for name in hosts:
        match = _HOST.fullmatch(name)
        if match is None or match[1] != name:
            raise UsageError(
                f"--allowed-host {name!r} is not a host name",
                remedy="give only the host name, without a scheme or a port, such as docs.example.org",
            )
    origins = [origin.lower() for origin in allowed_origins]
    for origin in origins:
        if _ORIGIN.fullmatch(origin) is None:
            raise UsageError(
                f"--allowed-origin {origin!r} is not an origin",
                remedy="give scheme, host and port, such as http://localhost:3000",
            )
    if host in ("0.0.0.0", "::", "") and not hosts:  # noqa: S104 - compared, not bound
        raise UsageError(
            f"a server at {host or 'every address'} needs the host name that clients use",
            remedy="give the host name with --allowed-host",
        )
    own = LOOPBACK_NAMES if loopback else ()
    return Access(
        hosts=tuple(dict.fromkeys((*own, bracketed(host.lower()), *hosts))),
        origins=tuple(origins),
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
