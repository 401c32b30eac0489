"""No module imports itself through others, at import time or inside a function."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp


def circle_in(imports: dict[str, set[str]]) -> list[str]:
    """The modules of one import circle, empty when there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("branchrank", cache_dir=None, exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert circle_in(imports) == []
