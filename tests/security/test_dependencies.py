"""Pinned versions compared with advisories from a file, and the bill of materials of a release."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.commands import ROOT, program


def advisory(name: str, identifier: str = "PYSEC-1", **affected: object) -> dict[str, Any]:
    """An OSV record about one package of PyPI."""
    entry = {"package": {"ecosystem": "PyPI", "name": name}, **affected}
    return {"id": identifier, "summary": "it is unsafe", "affected": [entry]}


def between(*events: dict[str, str]) -> list[dict[str, Any]]:
    return [{"type": "ECOSYSTEM", "events": list(events)}]


def audit(folder: Path, content: object, *words: str) -> Any:
    """The command over constraints of two packages."""
    pins = folder / "constraints.txt"
    pins.write_text("# pinned\nsome-package==2.4.0\nother==1.0 ; python_version > '3'\n")
    path = folder / "advisories.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    script = ROOT / ".ci" / "audit_dependencies.py"
    return program(script, "--advisories", path, "--constraints", pins, *words, cwd=folder)


@pytest.mark.parametrize(
    ("affected", "found"),
    [
        ({"versions": ["2.3.0", "2.4.0"]}, True),
        ({"versions": ["2.3.0"]}, False),
        ({"ranges": between({"introduced": "0"}, {"fixed": "2.4.1"})}, True),
        ({"ranges": between({"introduced": "0"}, {"fixed": "2.4.0"})}, False),
        ({"ranges": between({"introduced": "0"}, {"last_affected": "2.4.0"})}, True),
        ({"ranges": between({"introduced": "2.4.1"})}, False),
        ({"ranges": between({"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "2.0"})}, True),
    ],
)
def test_a_pinned_version_is_compared(tmp_path: Path, affected: dict[str, Any], found: bool) -> None:
    ended = audit(tmp_path, [advisory("Some_Package", **affected), advisory("absent", versions=["2.4.0"])])
    assert ended.returncode == int(found)
    assert ("some-package 2.4.0: PYSEC-1: it is unsafe" in ended.stdout) == found
    assert f"2 pinned packages, {int(found)} findings" in ended.stdout


def test_withdrawn_ignored_and_foreign_records_are_left_out(tmp_path: Path) -> None:
    whole = between({"introduced": "0"})
    withdrawn = advisory("other", "A", ranges=whole) | {"withdrawn": "2026-01-01T00:00:00Z"}
    foreign = advisory("other", "B", ranges=whole)
    foreign["affected"][0]["package"]["ecosystem"] = "npm"
    ignored = advisory("other", "C", ranges=whole)
    assert audit(tmp_path, [withdrawn, foreign, ignored], "--ignore", "C").returncode == 0
    assert audit(tmp_path, [withdrawn, foreign, ignored]).returncode == 1


def test_a_zip_of_records_is_read_and_another_file_is_an_error(tmp_path: Path) -> None:
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("PYSEC-1.json", json.dumps(advisory("numpy", ranges=between({"introduced": "0"}))))
    script = ROOT / ".ci" / "audit_dependencies.py"
    ended = program(script, "--advisories", archive, cwd=tmp_path)
    assert ended.returncode == 1
    assert "numpy" in ended.stdout
    assert audit(tmp_path, "no JSON").returncode == 2


def test_the_bill_of_materials_names_every_pinned_dependency(tmp_path: Path) -> None:
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    for path in paths:
        ended = program(ROOT / ".ci" / "sbom.py", path, "--extra", "mcp", cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
    assert paths[0].read_bytes() == paths[1].read_bytes()
    bill = json.loads(paths[0].read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    versions = {each["name"]: each["version"] for each in bill["components"]}
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert {f"{name}=={version}".casefold() for name, version in versions.items()} <= {
        pin.casefold().replace("_", "-") for pin in pins
    }
    assert {"numpy", "chromadb", "uvicorn", "mcp"} <= versions.keys()
    assert not {"pytest", "qdrant-client"} & versions.keys()
    known = {each["bom-ref"] for each in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    assert {each["ref"] for each in bill["dependencies"]} == known
    assert {ref for each in bill["dependencies"] for ref in each["dependsOn"]} <= known
