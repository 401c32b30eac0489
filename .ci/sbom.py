#!/usr/bin/env python3
"""Write the software bill of materials (CycloneDX 1.6, JSON) for the wheel and its pinned dependencies.

    python .ci/sbom.py build/sbom.json [--extra all]

The list contains the direct and indirect dependencies of the installed ``branchrank``, but not the
development tools. ``constraints.txt`` sets the versions of the packages. The same versions always give the
same list, byte for byte.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import uuid
from pathlib import Path

from audit_dependencies import ROOT, normalized, pinned
from packaging.requirements import Requirement

NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")


def requirements(name: str, extras: frozenset[str]) -> dict[str, frozenset[str]]:
    """Return a package's direct requirements on this platform, with the extras of each requirement."""
    needed: dict[str, frozenset[str]] = {}
    try:
        listed = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return needed
    for text in listed:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            key = normalized(requirement.name)
            needed[key] = needed.get(key, frozenset()) | frozenset(requirement.extras)
    return needed


def closure(extras: frozenset[str]) -> dict[str, dict[str, frozenset[str]]]:
    """Return the direct requirements of ``branchrank`` and of each package that it needs."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    wanted = [("branchrank", extras)]
    known: dict[str, frozenset[str]] = {}
    while wanted:
        name, asked = wanted.pop()
        if name in known and asked <= known[name]:
            continue
        known[name] = known.get(name, frozenset()) | asked
        found[name] = requirements(name, known[name])
        wanted += found[name].items()
    return found


def bill(extras: frozenset[str]) -> dict[str, object]:
    """Return the software bill of materials as a CycloneDX document."""
    pins = pinned(ROOT / "constraints.txt")
    own = importlib.metadata.version("branchrank")
    graph = closure(extras)
    # Requirements for other platforms have no pin, so `make setup` does not install them.
    kept = sorted(name for name in graph if name in pins)
    links = {
        name: f"pkg:pypi/{name}@{own if name == 'branchrank' else pins[name]}"
        for name in (*kept, "branchrank")
    }
    components = [
        {"type": "library", "bom-ref": links[name], "name": name, "version": pins[name], "purl": links[name]}
        for name in kept
    ]
    depends = [
        {
            "ref": links[name],
            "dependsOn": sorted(links[each] for each in graph[name] if each in links and each != name),
        }
        for name in ("branchrank", *kept)
    ]
    root = {"type": "application", "bom-ref": links["branchrank"], "name": "branchrank", "version": own}
    content = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root | {"purl": links["branchrank"]}},
        "components": components,
        "dependencies": depends,
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(content, sort_keys=True))
    return {"serialNumber": serial.urn, **content}


def main() -> int:
    """Write the software bill of materials to the output file, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument(
        "--extra", action="append", default=[], help="also list the packages of this extra (repeatable)"
    )
    flags = parser.parse_args()
    flags.output.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(bill(frozenset(flags.extra)), indent=1)
    flags.output.write_text(content + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
