"""The public names: listed, documented, and loaded when they are first used."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest
from support.commands import ROOT

import branchrank
from branchrank import plugins

NAMES = [
    "AgentAnswer",
    "Anchor",
    "Answer",
    "Comparison",
    "Hit",
    "LLMUse",
    "Passage",
    "Predictor",
    "Question",
    "Run",
    "System",
    "Workspace",
    "errors",
    "library",
    "locate",
]
PLUGIN_NAMES = [
    "Adapter",
    "Answer",
    "Block",
    "Branch",
    "BranchKind",
    "BranchResult",
    "Chunker",
    "Definition",
    "DocumentVectors",
    "Embedder",
    "EmbedderIdentity",
    "Findings",
    "Heading",
    "LLMUse",
    "LinkTarget",
    "Lookup",
    "MaxSim",
    "Opening",
    "Passage",
    "Piece",
    "Plugin",
    "QueryVectors",
    "Ranking",
    "Reader",
    "Reference",
    "Retriever",
    "Scored",
    "Scores",
    "Search",
    "SharedLines",
    "Span",
    "TokenEmbedder",
    "Vectors",
    "list_plugins",
    "no_options",
    "plain_blocks",
    "unit_row",
    "unit_rows",
]
HEAVY = {
    "altair",
    "bm25s",
    "chromadb",
    "click",
    "httpcore2",
    "httpx",
    "httpx2",
    "msgspec",
    "numpy",
    "onnxruntime",
    "openai",
    "pandas",
    "pydantic",
    "rich",
    "scipy",
    "sentence_transformers",
    "statsmodels",
    "torch",
    "transformers",
}


def loaded_by(code: str) -> set[str]:
    """Top-level modules that are loaded after ``code``, in a fresh interpreter."""
    code += "; import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_the_public_names_are_these() -> None:
    assert branchrank.__all__ == NAMES
    assert [name for name in dir(branchrank) if not name.startswith("__")] == NAMES
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Public API")[2].partition("##")[0]
    assert [name for name in NAMES if f"`{name}`" not in table] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_resolves_and_is_documented(name: str) -> None:
    value = getattr(branchrank, name)
    assert inspect.getdoc(value)
    assert getattr(branchrank, name) is value
    if inspect.isclass(value):
        assert value.__name__ == name
        for method, function in inspect.getmembers(value, inspect.isfunction):
            if not method.startswith("_") and function.__module__.startswith("branchrank"):
                assert inspect.getdoc(function), f"{name}.{method}"


def test_the_plugin_names_are_these_and_documented() -> None:
    assert sorted(plugins.__all__) == PLUGIN_NAMES
    values = {name: getattr(plugins, name) for name in PLUGIN_NAMES}
    made = [value for value in values.values() if inspect.isclass(value) or inspect.isfunction(value)]
    assert len(made) == len(values) - 4, "all but four are classes or functions"
    assert [value for value in made if not inspect.getdoc(value)] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'Worspace'"):
        branchrank.Worspace  # noqa: B018 - the access is the test
    assert not hasattr(branchrank, "__path_of_nothing__")


def test_a_star_import_gives_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from branchrank import *", namespace)
    assert sorted(set(namespace) - {"__builtins__"}) == NAMES


def seen_by_type_checkers(module: ModuleType) -> dict[str, str]:
    """The names that a module gives its type checkers only, with their homes."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    [block] = [
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        alias.asname: f"{node.module}.{alias.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }


def test_type_checkers_see_the_same_names() -> None:
    library = branchrank.library
    assert seen_by_type_checkers(library) == {
        name: f"{library._HOMES[name]}.{name}" for name in library._HOMES
    }
    seen = seen_by_type_checkers(branchrank)
    assert sorted(seen) == NAMES
    homes = branchrank._HOMES | {"errors": "branchrank.core", "library": "branchrank"}
    assert seen == {name: f"{homes[name]}.{name}" for name in NAMES}
    assert (Path(branchrank.__file__).parent / "py.typed").is_file()


def test_the_import_loads_nothing_heavy() -> None:
    assert loaded_by("import branchrank") & HEAVY == set()


@pytest.mark.parametrize("name", ["Hit", "Question", "Predictor", "errors"])
def test_the_records_load_only_their_own_library(name: str) -> None:
    assert loaded_by(f"import branchrank; branchrank.{name}") & HEAVY <= {"msgspec"}


def test_the_functions_of_the_library_load_their_modules_on_first_use() -> None:
    library = branchrank.library
    rooms = "branchrank.runs", "branchrank.reports"
    code = "import sys; from branchrank import library; library.run_benchmark; names = list(sys.modules)"
    assert loaded_by(f"{code}; assert not [name for name in names if name.startswith({rooms})]") & HEAVY <= {
        "msgspec"
    }
    assert [name for name in library.__all__ if not callable(getattr(library, name))] == []
    with pytest.raises(AttributeError, match="'absent'"):
        library.absent  # noqa: B018 - the access is the test


def test_a_workspace_loads_no_model_and_no_server_client() -> None:
    loaded = loaded_by("import branchrank; branchrank.Workspace; branchrank.Run; branchrank.System")
    assert loaded & (HEAVY - {"msgspec", "numpy"}) == set()


def test_the_package_logs_nowhere_unless_asked() -> None:
    code = (
        "import logging, branchrank\n"
        "root = list(logging.root.handlers)\n"
        "logging.getLogger('branchrank.frontends.serve').error('unseen')\n"
        "assert root == logging.root.handlers == []\n"
        "assert logging.getLogger('branchrank').level == logging.NOTSET\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_version_is_the_installed_one() -> None:
    assert branchrank.__version__ == version("branchrank")
