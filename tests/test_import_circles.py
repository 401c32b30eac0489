"""The package has no import circle and stays within its budgets of modules, parameters and forwarding.

An import counts wherever it is: at the top of a module, in a function or under ``TYPE_CHECKING``.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import branchrank

PACKAGE = Path(branchrank.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def texts() -> dict[str, str]:
    """The text of every module of the package, by its dotted name. Packages end with ``.__init__``."""
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
    }


@cache
def modules() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in texts().items()}


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def functions() -> Iterator[tuple[str, Function, list[str]]]:
    """Each function with its name and the names of its parameters, without ``self`` and ``cls``."""
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                spec = node.args
                names = [each.arg for each in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
                yield f"{module}.{node.name}", node, [name for name in names if name not in ("self", "cls")]


def only_forwards(node: Function, parameters: list[str]) -> bool:
    """Whether a function only calls another one with all its parameters, and computes nothing."""
    body = [each for each in node.body if not isinstance(each, ast.Import | ast.ImportFrom)]
    body = [
        each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
    ]
    if not parameters or len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value.value if isinstance(body[0].value, ast.Await) else body[0].value
    if not isinstance(call, ast.Call):
        return False
    passed = [*call.args, *(keyword.value for keyword in call.keywords)]
    plain = {each.id for each in passed if isinstance(each, ast.Name)}
    simple = all(isinstance(each, ast.Name | ast.Attribute | ast.Constant) for each in passed)
    return simple and set(parameters) <= plain


def code_lines(module: str) -> int:
    """The number of lines that are not blank, a comment, an import or a docstring."""
    kept = {n for n, line in enumerate(texts()[module].splitlines(), 1) if line.strip()[:1] not in ("", "#")}
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Expr):
            kept.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(kept)


def test_no_module_imports_itself_through_others() -> None:
    trees = {name.removesuffix(".__init__"): tree for name, tree in modules().items()}
    graph = {name: (set(imported(tree)) & trees.keys()) - {name} for name, tree in trees.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_a_file_name_and_the_name_of_a_public_class_occur_once() -> None:
    files = Counter(name.rpartition(".")[2] for name in modules() if not name.endswith("__"))
    classes = Counter(
        node.name
        for tree in modules().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for names in (files, classes) for name, count in names.items() if count > 1] == []


def test_few_functions_only_forward_their_parameters() -> None:
    assert len([name for name, node, given in functions() if only_forwards(node, given)]) <= 14


def test_few_functions_have_more_than_seven_parameters() -> None:
    wide = [
        name
        for name, node, given in functions()
        if len(given) > 7
        and not any("click" in ast.dump(each) or "option" in ast.dump(each) for each in node.decorator_list)
    ]
    assert len(wide) <= 6, wide


def test_few_modules_are_small_and_few_are_at_the_root() -> None:
    small = [name for name in modules() if not name.endswith("__init__") and code_lines(name) < 45]
    assert len(small) <= 40, small
    assert len(list(PACKAGE.glob("*.py"))) <= 9
