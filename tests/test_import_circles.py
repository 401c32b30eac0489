"""No module imports itself through others, at import time or inside a function."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("branchrank", cache_dir=None, exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"an import circle: {' -> '.join(error.args[1])}")
