#!/usr/bin/env python3
"""Check the versions pinned in ``constraints.txt`` against a file of known vulnerabilities, offline.

    curl -LO https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip
    python .ci/audit_dependencies.py --advisories all.zip

The file of vulnerability records comes from OSV. The file can be a zip archive of JSON records, a single JSON
record, or a JSON list of records. The exit code is 1 if a pinned version has a vulnerability whose id is not
passed with ``--ignore``. The exit code is 2 if the file of vulnerability records can't be read.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]


def pinned(path: Path) -> dict[str, str]:
    """Read lines such as ``name==version``, and return a dictionary from normalized name to version."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", line) for line in lines)
    return {normalized(pair[1]): pair[2] for pair in pairs if pair}


def normalized(name: str) -> str:
    """Return a package's name in PyPI's normalized form."""
    return re.sub(r"[-_.]+", "-", name).lower()


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the OSV records in a zip or JSON file."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".json"):
                    yield json.loads(archive.read(name))
        return
    content = json.loads(path.read_text(encoding="utf-8"))
    yield from content if isinstance(content, list) else [content]


def affects(affected: dict[str, Any], version: str) -> bool:
    """Return whether ``affected``, an entry of an OSV record's ``affected`` list, includes ``version``."""
    if version in affected.get("versions", ()):
        return True
    return any(
        _within(each["events"], Version(version))
        for each in affected.get("ranges", ())
        if each.get("type") == "ECOSYSTEM"
    )


def _within(events: list[dict[str, str]], version: Version) -> bool:
    """Return whether a version is in the range described by ``events``, which are in ascending order."""
    inside = False
    for event in events:
        try:
            if "introduced" in event and version >= Version(event["introduced"]):
                inside = True
            fixed = "fixed" in event and version >= Version(event["fixed"])
            if fixed or ("last_affected" in event and version > Version(event["last_affected"])):
                inside = False
        except InvalidVersion:
            return True  # these versions can't be compared, so a person must check the record
    return inside


def findings(path: Path, pins: dict[str, str]) -> list[tuple[str, str, str, str]]:
    """Return the package, version, OSV record id and summary of each vulnerability in a pinned version."""
    found = []
    for record in records(path):
        if record.get("withdrawn"):
            continue
        for affected in record.get("affected", ()):
            package = affected.get("package", {})
            name = normalized(package.get("name", ""))
            if package.get("ecosystem") == "PyPI" and name in pins and affects(affected, pins[name]):
                found.append((name, pins[name], record["id"], record.get("summary", "")))
    return sorted(set(found))


def main() -> int:
    """Print the OSV records that affect a pinned version, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--advisories", type=Path, required=True, metavar="FILE", help="OSV's zip or JSON")
    parser.add_argument("--constraints", type=Path, default=ROOT / "constraints.txt", metavar="FILE")
    parser.add_argument(
        "--ignore", nargs="*", default=[], metavar="ID", help="OSV records that do not apply to BranchRank"
    )
    flags = parser.parse_args()
    try:
        pins = pinned(flags.constraints)
        found = [each for each in findings(flags.advisories, pins) if each[2] not in flags.ignore]
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        print(f"error: cannot read the advisories in {flags.advisories}: {error!r}", file=sys.stderr)
        print("fix: download OSV's all.zip again", file=sys.stderr)
        return 2
    for name, version, identifier, summary in found:
        print(f"{name} {version}: {identifier}: {summary}")
    print(f"{len(pins)} pinned packages, {len(found)} findings")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
