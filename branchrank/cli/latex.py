"""The flag ``--latex FILE`` of commands that print a table of results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from branchrank.cli.terminal import safe

if TYPE_CHECKING:
    from branchrank.library import ResultsTable

F = TypeVar("F", bound=Callable[..., Any])


def latex_option(function: F) -> F:
    """Add the ``--latex`` flag to a command."""
    return click.option(
        "--latex",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Also write the table to this file as LaTeX (booktabs).",
    )(function)


def write_latex(path: Path | None, table: ResultsTable) -> None:
    """Write the table as LaTeX to ``path``. If ``path`` is ``None``, do nothing."""
    if path is not None:
        from branchrank import library

        library.write_latex(path, table)
        click.echo(f"written: {safe(str(path))}")
