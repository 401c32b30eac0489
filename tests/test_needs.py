"""Without a program that they need, tests are skipped, and the end of the run names what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support import axe
from support.bare import without
from support.commands import ROOT
from support.needs import INSTALL, need

#: Tests that start each program.
USERS = {
    "cc": ("faults/test_disk_faults.py", "security/test_sockets.py"),
    "chromium": (
        "reports/test_html.py",
        "reports/test_page_looks.py",
        "view/test_view_looks.py",
        "view/test_view_labels.py::test_a_question_is_added_with_the_keyboard",
        "view/test_view_questions.py::test_a_reader_filters_opens_and_reloads",
    ),
    "git": ("documents/test_named_corpora.py::test_a_repository_comes_at_its_pinned_commit",),
    "redis-server": (
        "acceptance/test_document_002_qdrant.py::TestPerformanceAndCaching::test_embedding_cache",
        "doors/test_caches.py::test_a_repeated_query_uses_the_caches[redis-run]",
        "index/test_embedding_redis.py",
        "search/test_decision_caches.py",
        "search/test_two_endpoints.py::test_the_second_server_is_called_and_the_runs_differ[redis]",
        "security/test_secrets_leave_nothing.py::test_no_flow_stores_a_secret",
    ),
}


@pytest.mark.parametrize(
    "program", [each if each == "git" else pytest.param(each, marks=pytest.mark.full) for each in USERS]
)
def test_without_a_program_the_tests_that_start_it_are_skipped(tmp_path: Path, program: str) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "CI" and "PYTEST" not in name}
    report = tmp_path / "report.xml"
    options = (
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        f"--basetemp={tmp_path / 'base'}",
        "-m",
        "full or not full",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(f"tests/{name}" for name in USERS[program])],
        cwd=ROOT,
        env={**kept, "PATH": without(tmp_path / "bin", program)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    cases = ElementTree.parse(report).findall(".//testcase")
    skipped = [
        (case.get("classname"), each.get("message")) for case in cases for each in case.iter("skipped")
    ]
    assert {message for _, message in skipped} == {f"needs {program}"}
    files = {name.partition(".py")[0].replace("/", ".") for name in USERS[program]}
    assert {file for file in files if any(file in str(name) for name, _ in skipped)} == files
    assert f"{program}: {len(skipped)} skipped; {INSTALL[program]}" in done.stdout.splitlines()


def test_without_axe_the_test_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(axe, "SCRIPT", tmp_path / "axe.js")
    unused: Any = None
    with pytest.raises(pytest.skip.Exception, match="needs axe-core"):
        axe.violations(unused)


def test_in_continuous_integration_a_missing_program_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needs redis-server"):
        need("redis-server", "not-a-program")
    assert need("redis-server", "sh").endswith("/sh")
