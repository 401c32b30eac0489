"""``--help`` of every command says what is needed, at once: nothing heavy is loaded for it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.commands import ROOT, every_command, invoke, make_project, program

from branchrank.core.settings import PARTS, IndexSettings, settings_of
from branchrank.frontends.cli.main import main

HEAVY = ("torch", "chromadb", "pandas", "openai", "sentence_transformers")

#: Runs commands in one process, then prints which of the heavy modules were loaded, and exit codes.
LISTED = f"""
import json, sys
from click.testing import CliRunner
from branchrank.frontends.cli.main import main
codes = [CliRunner().invoke(main, words).exit_code for words in json.loads(sys.argv[1])]
loaded = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps([loaded, codes]))
"""


COMMANDS = every_command()
ALL = list(COMMANDS)


def loaded_by(words: list[list[str]], cwd: Path) -> tuple[list[str], list[int]]:
    done = program("-c", LISTED, json.dumps(words), cwd=cwd, fresh=True)
    assert done.returncode == 0, done.stderr
    loaded, codes = json.loads(done.stdout)
    return loaded, codes


def test_help_of_every_command_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded, codes = loaded_by([[*words, "--help"] for words in ALL], tmp_path)
    assert loaded == []
    assert set(codes) == {0}
    assert len(codes) > 25


UNNEEDED = (*HEAVY, "transformers", "scipy", "onnxruntime")


def test_a_bm25_only_query_loads_nothing_heavy(tmp_path: Path) -> None:
    """The lexical tree search is BM25 alone: no vectors, no model, no table library."""
    project = make_project(tmp_path)
    code = (
        "import sys, branchrank\n"
        "with branchrank.Workspace.open('data') as workspace:\n"
        "    hits = workspace.search('remove stains', system='pageindex', k=3)\n"
        "print(hits[0].node_id)\n"
        f"print([name for name in {UNNEEDED!r} if name in sys.modules])\n"
    )
    done = program("-c", code, cwd=project, fresh=True)
    assert done.stdout == "guide/cleaning.md#removing-stains\n[]\n", done.stderr


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_has_a_help_text(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*words, "--help"], terminal_width=100)
    assert result.exit_code == 0
    assert result.output.startswith("Usage:")
    body = result.output.split("\n\n", 1)[1]
    assert body.strip()[0].isupper(), "a sentence says what it does"
    command = COMMANDS[words]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, (words, parameter.name)


def test_every_setting_has_a_command_that_takes_its_flag() -> None:
    taken = {flag for words in ALL for parameter in COMMANDS[words].params for flag in parameter.opts}
    assert {setting.flag for part in PARTS for setting in settings_of(part)} <= taken


def test_flags_state_their_default_and_range() -> None:
    result = CliRunner().invoke(main, ["hybrid", "--help-all"], terminal_width=300)
    assert "--hybrid-candidate-cap INTEGER" in result.output
    assert "Default: 30. Range: 0 to 100000 (recommended: 20 to 50)." in result.output
    assert "Default: 0.9. Range: 0 to 10." in result.output


def sections(words: tuple[str, ...]) -> dict[str, list[str]]:
    """The headings of a help text, each with the flags below it."""
    result = CliRunner().invoke(main, [*words], terminal_width=100)
    assert result.exit_code == 0
    found: dict[str, list[str]] = {}
    for line in result.output.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            found[line.removesuffix(":")] = shown = []
        elif found and (flag := re.match(r"  (?:-[a-z], )?(--[a-z0-9-]+)", line)) is not None:
            shown.append(flag[1])
    return found


def flags_of(words: tuple[str, ...]) -> list[str]:
    """The first name of each of a command's flags."""
    command = COMMANDS[words]
    return [max(option.opts, key=len) for option in command.params if isinstance(option, click.Option)]


LONG = [words for words in ALL if len(flags_of(words)) > 26]


@pytest.mark.parametrize("words", LONG, ids=" ".join)
def test_help_of_a_command_with_many_flags_shows_the_common_ones(words: tuple[str, ...]) -> None:
    """The command's own flags, the common settings below their headings, and the way to the others."""
    found = sections((*words, "--help"))
    shown = [flag for flags in found.values() for flag in flags]
    assert len(found) >= 2
    assert 8 <= len(shown) <= 36
    assert len(shown) == len(set(shown))
    assert {"--help-all", "--help"} <= set(shown)
    assert "--data-dir" in shown or "--reports" in shown


@pytest.mark.parametrize("words", LONG, ids=" ".join)
def test_help_all_shows_every_flag_once_with_one_heading_per_part(words: tuple[str, ...]) -> None:
    common, everything = sections((*words, "--help")), sections((*words, "--help-all"))
    shown = [flag for flags in everything.values() for flag in flags]
    assert sorted(shown) == sorted([*flags_of(words), "--help"])
    parts = {setting.flag: part.title for part in PARTS for setting in settings_of(part)}
    assert len(set(parts.values())) == len(PARTS)
    for heading, flags in everything.items():
        assert set(common.get(heading, ())) <= set(flags)
        if heading != "Options":
            assert {parts[flag] for flag in flags} == {heading}


@pytest.mark.parametrize("verb", ["benchmark", "hybrid", "retrieve"])
def test_no_flag_has_two_meanings(verb: str) -> None:
    command = main.get_command(click.Context(main), verb)
    assert command is not None
    flags = [flag for p in command.params for flag in (*p.opts, *p.secondary_opts)]
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize(
    ("door", "verb"),
    [("retrieve", "retrieve"), ("hybrid_retrieve", "hybrid"), ("benchmark_run", "benchmark")],
)
def test_a_script_has_the_flags_of_its_command(door: str, verb: str, tmp_path: Path) -> None:
    done = program(ROOT / f"{door}.py", "--help", cwd=tmp_path)
    assert done.returncode == 0
    shown = program("-m", "branchrank.frontends.cli.main", verb, "-h", cwd=tmp_path).stdout

    def letters(text: str) -> str:
        """The help without its first word, the command's name, however it is wrapped."""
        return "".join(text.partition("[OPTIONS]")[2].split())

    assert letters(done.stdout) == letters(shown) != ""


def test_the_version_is_the_packages() -> None:
    from branchrank import __version__

    assert invoke("--version").stdout == f"branchrank, version {__version__}\n"


def test_help_shows_the_defaults_of_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedder of ``data``, or of ``--data-dir``, takes the place of the global default."""
    monkeypatch.chdir(tmp_path)
    for name, embedder in (("data", "all-MiniLM-L6-v2"), ("other", "fake:16")):
        (tmp_path / name).mkdir()
        config = f'corpus = "../docs"\n[index]\nembedder = "{embedder}"\n'
        (tmp_path / name / "branchrank.toml").write_text(config)

    def default(*words: str) -> str:
        shown = "".join(invoke(*words, "--help").output.split())  # lines are also broken within words
        found = re.search(r"--embedderTEXT.*?Default:(.*?\)?)\.(?=-|$)", shown)
        assert found is not None, shown
        return found[1]

    for command in ("retrieve", "search", "calibrate"):
        assert default(command) == "all-MiniLM-L6-v2(indata/branchrank.toml)"
        assert default(command, "--data-dir", "other") == "fake:16(inother/branchrank.toml)"
        assert default(command, "--data-dir", "none").startswith(IndexSettings().embedder)
    (tmp_path / "data" / "branchrank.toml").write_text("[index")
    assert default("retrieve") == IndexSettings().embedder


def test_the_three_searches_say_when_to_use_each() -> None:
    verbs = {"retrieve", "hybrid", "search"}
    for verb in verbs:
        text = " ".join(invoke(verb, "--help").output.split())
        assert {other for other in verbs if f"`branchrank {other}`" in text} == verbs - {verb}
