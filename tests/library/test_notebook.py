"""The example notebook runs from top to bottom, and shows tables and plots."""

from __future__ import annotations

import warnings
from pathlib import Path

import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module")
def executed() -> nbformat.NotebookNode:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the notebook client's own
        from nbclient import NotebookClient

        notebook = nbformat.read(NOTEBOOK, as_version=4)
        client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(NOTEBOOK.parent)}})
        return client.execute()


def outputs(notebook: nbformat.NotebookNode, containing: str) -> list[nbformat.NotebookNode]:
    (cell,) = (cell for cell in notebook.cells if cell.cell_type == "code" and containing in cell.source)
    return list(cell.outputs)


@pytest.mark.full
def test_searches_print_hits(executed: nbformat.NotebookNode) -> None:
    (output,) = outputs(executed, 'system="hybrid", k=3')
    assert output.text.count("\n") == 3


@pytest.mark.full
def test_a_run_is_shown_as_a_table_and_a_plot(executed: nbformat.NotebookNode) -> None:
    shown = outputs(executed, "workspace.benchmark(")[-1].data["text/html"]
    assert "<table" in shown
    assert "<svg" in shown
    for name in ("local", "hybrid", "dense-only", "Titles"):
        assert name in shown


@pytest.mark.full
def test_progress_is_one_line_that_is_replaced(executed: nbformat.NotebookNode) -> None:
    displayed = [
        output for output in outputs(executed, "workspace.benchmark(") if output.output_type == "display_data"
    ]
    assert len(displayed) == 1
    assert displayed[0].data["text/plain"].startswith(("latency", "questions"))


@pytest.mark.full
def test_tables_are_data_frames(executed: nbformat.NotebookNode) -> None:
    assert "strict_hit@1" in outputs(executed, "run.summary[[")[0].data["text/html"]
    assert outputs(executed, "comparison =")[0].data["text/plain"].startswith("('")


def test_the_notebook_is_stored_without_outputs_and_its_cells_compile() -> None:
    cells = [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    assert [cell for cell in cells if cell.outputs] == []
    for cell in cells:
        compile(cell.source, NOTEBOOK.name, "exec")
