"""The documentation is true: references resolve, flags and exit codes exist, generated pages are fresh."""

from __future__ import annotations

import errno
import importlib.util
import inspect
import os
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from support.commands import every_command

from branchrank.core import errors, records, spec
from branchrank.core.io.text_files import read_jsonl
from branchrank.core.settings import ALIASES, PARTS, Bm25Settings, HybridSettings, settings_of
from branchrank.documents.document import Document, slug
from branchrank.documents.loading import corpus_lines, load_corpus
from branchrank.frontends.cli.compare import EXIT_CODES
from branchrank.index.workspace_folder import WorkspaceConfig
from branchrank.questions.anchoring import check_anchors
from branchrank.questions.question_files import load_questions
from branchrank.runs import directory as run_directory
from branchrank.runs.bench.experiment import plan_from_experiment
from branchrank.runs.rows import Row
from branchrank.runs.timings import Timing
from branchrank.search.ranking import expansion

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SAMPLE = ROOT / "data" / "sample" / "corpus"
QUESTIONS = ROOT / "data" / "sample" / "questions.jsonl"
PILOT = ROOT / "examples" / "agents-questions.jsonl"
TEXTS = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}


@cache
def documents() -> dict[str, Document]:
    return {document.source: document for document in load_corpus(DOCS, ()).documents}


def reference() -> ModuleType:
    return script("reference")


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_answer_the_questions_of_the_transcript() -> None:
    transcript = script("transcript")
    for _, source, beginning in transcript.QUESTIONS:
        assert transcript.lines_of(DOCS / source, beginning)


def test_the_results_in_the_readme_are_those_of_the_transcript() -> None:
    """One command writes both; the picture is of the same run."""
    _, result, _ = (ROOT / "README.md").read_text(encoding="utf-8").split("<!-- result -->\n")
    printed = TEXTS["transcript.md"].partition("branchrank demo --quiet\n")[2].partition("```")[0]
    cells = [re.split(r"[ |/]+", line.strip("| ")) for line in result.splitlines() if "%" in line]
    rows = {row[0]: row[1:] for row in cells if row[0] != ">"}
    assert len(rows) == 8
    for name, row in rows.items():
        [found] = re.findall(rf"(?m)^{name} +(.+)$", printed)
        assert row == found.split()[:-2], "all but the LLM's calls and tokens"
    said = [line.removeprefix("> ") for line in result.splitlines() if line.startswith("> ")]
    assert said
    assert [line for line in said if line not in printed.splitlines()] == []
    [date] = re.findall(r"of one run \((\S+),", result)
    assert f"on {date} with" in TEXTS["transcript.md"]


def test_the_verification_page_is_up_to_date() -> None:
    made = script("verification_page").verification_page()
    assert TEXTS["verification.md"] == made, "run: python docs/verification_page.py"


@pytest.mark.parametrize("page", ["commands", "settings"])
def test_generated_pages_are_up_to_date(page: str) -> None:
    made = getattr(reference(), f"{page}_page")()
    assert TEXTS[f"{page}.md"] == made, "run: python docs/reference.py"


def test_every_page_is_once_in_the_table_of_contents() -> None:
    """The table is visible on a code host, where a toctree is raw text; Sphinx makes its toctrees from it."""
    assert {*TEXTS} == {*documents()}
    assert "toctree" not in TEXTS["index.md"]
    _, _, pages = TEXTS["index.md"].partition("\n## All pages\n")
    listed = re.findall(r"\[([^]]+)\]\(([^)]+)\)", pages)
    assert sorted(source for _, source in listed) == sorted({*documents()} - {"index.md"})
    for title, source in listed:
        assert title == documents()[source].title
    made = [TEXTS["index.md"]]
    script("conf").add_toctrees(None, "index", made)
    toctrees = re.findall(r"(?ms)^```\{toctree\}\n:hidden:\n:caption: ([^\n]+)\n\n(.+?)\n```$", made[0])
    assert [name for _, names in toctrees for name in names.split()] == [
        source.removesuffix(".md") for _, source in listed
    ]
    assert len(toctrees) == len(re.findall(r"(?m)^\| .* \| \[", pages))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_flags_and_targets_of_the_top_pages_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s#]+)", text):
        assert target.startswith("http") or (ROOT / target).exists(), target
    assert {flag for flag in FLAG.findall(text) if flag not in known_flags() | FOREIGN} == set()
    targets = re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert {target for target in re.findall(r"\bmake ([a-z-]+)", text) if target not in targets} == set()


def anchors(document: Document) -> set[str]:
    return {label.name for label in document.labels} | {slug(section.title) for section in document.sections}


@pytest.mark.parametrize("source", sorted(TEXTS))
def test_links_have_existing_targets(source: str) -> None:
    prose = re.sub(r"(?ms)^```.*?^```", "", TEXTS[source])
    prose = re.sub(r"(?s)(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", prose)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"https?:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (DOCS / source).parent / name if name else DOCS / source
        assert path.exists(), f"{source} links to {target}"
        if anchor:
            linked = documents()[path.resolve().relative_to(DOCS).as_posix()]
            assert anchor in anchors(linked), f"{source} links to {target}"


def test_files_of_the_project_that_a_page_names_exist() -> None:
    texts = {**TEXTS, "CONTRIBUTING.md": (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")}
    path = re.compile(r"`((?:branchrank|tests|benchmarks|examples|docs|\.ci)/[\w./-]+)`")
    named = {(found, source) for source, text in texts.items() for found in path.findall(text)}
    assert len(named) > 30
    assert {(found, source) for found, source in named if not (ROOT / found).exists()} == set()


def known_flags() -> set[str]:
    flags = {setting.flag for part in PARTS for setting in settings_of(part)}
    for command in every_command().values():
        for param in command.params:
            flags.update((*param.opts, *param.secondary_opts))
    for script in (ROOT / ".ci").glob("*.py"):
        flags.update(re.findall(r'"(--[a-z-]+)"', script.read_text(encoding="utf-8")))
    return flags | {"--help"}


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")
#: Flags of other programs that pages mention.
FOREIGN = {"--pre", "--mcp-config", "--no-config", "--no-deps", "--path", "--torch-backend"}


def test_every_flag_that_a_page_names_exists() -> None:
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py")]
    known = known_flags() | FOREIGN | {flag for script in scripts for flag in FLAG.findall(script)}
    named = {flag: source for source, text in TEXTS.items() for flag in FLAG.findall(text)}
    unknown = {flag: source for flag, source in named.items() if flag not in known}
    assert unknown == {}


def test_every_branchrank_command_that_a_page_names_exists() -> None:
    verbs = {words[0] for words in every_command() if words}
    named = {
        (verb, source)
        for source, text in TEXTS.items()
        for verb in re.findall(r"(?:`|^\s*|\$ )branchrank ([a-z][a-z-]*)", text, flags=re.MULTILINE)
    }
    assert {(verb, source) for verb, source in named if verb not in verbs} == set()


def test_documented_exit_codes_match_the_errors() -> None:
    codes = {
        kind.exit_code
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.BranchRankError)
    }
    documented = {int(code) for code in re.findall(r"(?m)^\| (\d+) \|", TEXTS["troubleshooting.md"])}
    assert documented == codes | {0, 130, 143} | set(EXIT_CODES.values())


def test_documented_constants_match_the_code() -> None:
    page = TEXTS["systems.md"]
    formula = re.search(r"evidence = ([\d.]+) \* proximity \+ ([\d.]+) \* rank \+ ([\d.]+) \* count", page)
    assert formula is not None
    weights = (expansion.PROXIMITY_WEIGHT, expansion.RANK_WEIGHT, expansion.COUNT_WEIGHT)
    assert tuple(map(float, formula.groups())) == weights
    assert f"rank      = {1 + expansion.RANK_OFFSET} / (r + {expansion.RANK_OFFSET})" in page
    for name, share in (
        ("parent", expansion.PARENT_SHARE),
        ("child", expansion.CHILD_SHARE),
        ("sibling", expansion.SIBLING_SHARE),
        ("file node", expansion.FILE_ROOT_SHARE),
    ):
        assert re.search(rf"(?m)^\| {name} \| {share:.2f} \|", page), name
    prose = " ".join(page.split())
    bm25, hybrid = Bm25Settings(), HybridSettings()
    assert f"`k1 = {bm25.k1}` and `b = {bm25.b}`" in prose
    assert f"the {hybrid.siblings} nearest" in prose
    assert f"of the {hybrid.file_roots} best files" in prose
    assert f"The best {hybrid.candidate_cap} candidates" in prose
    assert f"`k` is {hybrid.rrf_k} " in prose
    assert f"The {hybrid.vector_top_n} chunks nearest" in prose
    assert f"the {hybrid.bm25_top_n} best nodes" in prose


def test_quoted_errors_match_the_code() -> None:
    """Each fixed part of an error message that the troubleshooting page quotes stands in the code."""
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "branchrank").rglob("*.py"))
    code = re.sub(r"\"\s*f?\"|`", "", code)
    quoted = re.findall(r"\*\*`(.+?)`\*\*", TEXTS["troubleshooting.md"])
    assert quoted
    system = {os.strerror(number) for number in (errno.ENOSPC, errno.EROFS, errno.EACCES)}
    for message in quoted:
        if message in system:
            continue
        for fixed in re.split(r"\.\.\.|\[\w+\]|\d+|'\w+'|\(|\)", message):
            words = re.sub(r"^[\w-]+\.(toml|jsonl):?", "", fixed.strip(" :,`")).strip()
            assert len(words) < 4 or words in code, f"{message!r}: {words!r}"


def test_toml_examples_are_valid_settings() -> None:
    sections = {part.section: {setting.name for setting in settings_of(part)} for part in PARTS}
    for source, text in TEXTS.items():
        for example in re.findall(r"(?ms)^```toml\n(.*?)^```", text):
            for name, table in tomllib.loads(example).items():
                if isinstance(table, dict) and name in sections:
                    assert set(table) <= sections[name], source


def test_experiment_examples_load(tmp_path: Path) -> None:
    blocks = re.findall(r"(?ms)^```toml\n(.*?)^```", TEXTS["experiments.md"])
    assert len(blocks) >= 4
    for block in blocks:
        path = tmp_path / "experiment.toml"
        path.write_text(block)
        assert plan_from_experiment(path).predictors


def test_every_slot_and_short_name_of_a_system_is_described() -> None:
    page = TEXTS["experiments.md"]
    for record in (spec.Branch, spec.Expand, spec.TreeSearch, spec.Fuse, spec.Group, spec.Rerank):
        assert [name for name in record.__struct_fields__ if f"`{name}" not in page] == []
    assert dict(re.findall(r"(?m)^\| `(\w+)` \| `([\w.]+)` \|$", page)) == ALIASES


@pytest.mark.parametrize(
    ("record", "heading"),
    [
        (records.Node, "## nodes.jsonl"),
        (records.Chunk, "## chunks.jsonl"),
        (Row, "### rows.jsonl"),
        (records.StageTrace, "### rows.jsonl"),
        (records.LLMCall, "### llm_calls.csv"),
        (Timing, "### timings.csv"),
        (WorkspaceConfig, "## branchrank.toml"),
    ],
)
def test_every_field_of_a_file_is_described(record: type[records.Record], heading: str) -> None:
    page = TEXTS["file-formats.md"]
    section = re.split(r"\n##+ ", page[page.index(f"\n{heading}\n") + 4 :])[0]
    assert [name for name in record.__struct_fields__ if f"`{name}`" not in section] == []


def test_every_file_of_a_run_is_described() -> None:
    constants = [value for name, value in vars(run_directory).items() if name.isupper()]
    files = {value for value in constants if isinstance(value, str) and "." in value}
    assert {name for name in files if f"`{name}`" not in TEXTS["file-formats.md"]} == set()


@pytest.mark.parametrize("path", [QUESTIONS, PILOT], ids=lambda path: path.stem)
def test_gold_of_the_sample_is_where_the_questions_say(path: Path) -> None:
    problems = check_anchors(load_questions(path), corpus_lines(SAMPLE, ()))
    assert [str(problem) for problem in problems] == [], "run: branchrank questions reanchor"


def test_the_example_of_agents_asks_for_passages_that_are_needed_together() -> None:
    llm = {"agent.base_url": "http://127.0.0.1:9/v1", "agent.model": "m"}
    plan = plan_from_experiment(ROOT / "examples" / "agents.toml", llm)
    names = ["local", "late-interaction", "agent", "agent-grep", "agent-vector", "agent-memory"]
    assert [each.name for each in plan.records] == names
    asked = load_questions(PILOT)
    assert len(asked) == 20
    assert all(len(each.needs) >= 2 for each in asked)


def test_question_lines_are_plain_objects() -> None:
    """The file is readable without BranchRank: one JSON object a line, the documented names only."""
    documented = set(re.findall(r"`(\w+)`", TEXTS["file-formats.md"]))
    for line in read_jsonl(QUESTIONS, dict):
        assert set(line) <= documented
