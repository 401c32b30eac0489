"""The fix of an error names flags that the command at hand has."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import every_command, invoke

from branchrank.cli.help import remedy_for

UNREACHABLE = (
    "start the server, name another endpoint (--hybrid-base-url, --pageindex-base-url), "
    "or leave the LLM out (--hybrid-no-llm, --pageindex-no-llm)"
)


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("benchmark",), UNREACHABLE.replace("url, --", "url or --").replace("llm, --", "llm or --")),
        (
            ("hybrid",),
            "start the server, name another endpoint (--hybrid-base-url), "
            "or leave the LLM out (--hybrid-no-llm)",
        ),
        (("questions", "generate"), "start the server, name another endpoint (--base-url)"),
        (
            ("run",),
            "start the server, name another endpoint (base_url in [hybrid] or base_url in [pageindex] of "
            "branchrank.toml), or leave the LLM out (--hybrid-no-llm or --pageindex-no-llm)",
        ),
    ],
)
def test_suggested_alternatives_exist_in_the_command(words: tuple[str, ...], fix: str) -> None:
    assert remedy_for(UNREACHABLE, every_command()[words]) == fix


WORDS = (
    "hybrid tea,retrieve tea,search tea,benchmark,serve,mcp,calibrate,index,questions check,pageindex check"
)


@pytest.mark.parametrize("words", WORDS.split(","))
def test_a_folder_that_is_not_a_workspace_is_refused_with_the_command_that_makes_one(
    words: str, tmp_path: Path
) -> None:
    folder = tmp_path / "nowhere"
    result = invoke(*words.split(), "--data-dir", folder)
    assert result.exit_code == 3
    assert f"error: {folder} is not a workspace" in result.stderr
    assert f"fix: branchrank init FOLDER --data-dir {folder}" in result.stderr
    assert "building" not in result.stderr
    assert not folder.exists()
