"""Remove keys and passwords from text that is printed or stored.

A server's error message, for example, can contain the key that the server received. Each secret is recognized
unchanged, in upper case, in lower case, with swapped case, URL-encoded, JSON-escaped, in hexadecimal, and in
base64 at each of the three possible byte offsets.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import SplitResult, quote, quote_plus, urlsplit

HIDDEN = "[key]"
_SHORTEST_SECRET = 6
SECRET_NAME = re.compile("key|token|secret|pass|auth|sig|code", re.IGNORECASE)
ONE_URL = re.compile(r"([a-z][a-z0-9+.-]{0,20}://)(.*)", re.IGNORECASE | re.DOTALL)
_PARAMETER = re.compile(r"([?&][^=&#]*(?:key|token|secret|pass|auth|sig|code)[^=&#]*=)[^&#]*", re.IGNORECASE)
#: Matches the names of settings, fields and flags whose value should be a URL.
_URL_NAME = re.compile(r"(?:[\w.-]*[-_.])?(?:url|endpoint)", re.IGNORECASE)
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
    """Replaces each known secret in a text with ``[key]``.

    Secrets shorter than six characters are not replaced.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(secrets)
        forms = {
            form for secret in self._secrets if len(secret) >= _SHORTEST_SECRET for form in _forms(secret)
        }
        self._forms = sorted(forms, key=lambda form: (-len(form), form))

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} secrets)"

    def knowing(self, secrets: Iterable[str]) -> Redactor:
        """Return a redactor that removes the given secrets and all secrets of this redactor."""
        return Redactor((*self._secrets, *secrets))

    def __call__(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text


def _forms(secret: str) -> set[str]:
    """Return all forms of a secret (such as its encodings) that must be removed from texts."""
    raw = secret.encode()
    forms = {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), repr(secret)[1:-1]}
    forms |= {json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    forms |= {secret.swapcase(), secret.lower(), secret.upper(), raw.hex(), raw.hex().upper()}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        forms.add(encode(raw).decode().rstrip("="))
        for shift in (0, 1, 2):
            encoded = encode(b"\0" * shift + raw).decode().rstrip("=")
            first = (0, 2, 3)[shift]
            last = len(encoded) - (1 if (shift + len(raw)) % 3 else 0)
            forms.add(encoded[first:last])
    return {form for form in forms if len(form) >= _SHORTEST_SECRET}


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
    """Split a URL into its scheme, host, path, query and fragment.

    If the URL can't be parsed (for example, ``http://[h``), all parts are empty.
    """
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
