"""Paths that try to leave a folder."""

from __future__ import annotations

from itertools import product

PREFIXES = (
    *("../" * depth for depth in range(1, 9)),
    *("..\\" * depth for depth in (1, 3, 6)),
    *("%2e%2e%2f" * depth for depth in (1, 4)),
    *("..%2f" * depth for depth in (1, 4)),
    *("%252e%252e/" * depth for depth in (1, 4)),
    *("..%c0%af" * depth for depth in (1, 4)),
    *("....//" * depth for depth in (1, 4)),
    *("..;/" * depth for depth in (1, 4)),
    *("\uff0e\uff0e/" * depth for depth in (1, 4)),
    "./../../",
    "http/../../",
    "http/./../../",
    "cache.rst/../../",
    "//",
    "///",
    "./../http/../../",
    "~/",
    "~root/",
    "file://",
    "file:///",
    "\\\\?\\",
    "//localhost/",
    "..\x00/",
    "\x00../",
    " ../",
    "../ ",
    "\n../",
    "-",
    "--",
    "$HOME/",
    "${PWD}/../",
    "`pwd`/../",
    "*/../../",
    "linked/",
    "linked/../../",
    "/proc/self/root/",
    "/proc/self/cwd/",
    "/dev/fd/../../",
)


def traversals(outside: str, sibling: str, secret: str) -> list[str]:
    """Over 500 paths to ``secret``, an absolute path, and to files that every machine has.

    ``outside`` and ``sibling`` are the secret's path from the folder's parent and from beside it.
    """
    targets = (
        outside,
        sibling,
        secret,
        secret.lstrip("/"),
        "etc/passwd",
        "etc/passwd\x00.rst",
        "proc/self/environ",
        "proc/self/mem",
        "dev/zero",
        "etc",
    )
    return ["".join(pair) for pair in product(PREFIXES, targets)] + [
        secret,
        "/etc/passwd",
        "..",
        ".",
        "",
        "/",
        "linked.txt",
        "fifo",
        "../" * 4000 + "etc/passwd",
    ]
