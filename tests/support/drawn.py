"""Plots in tests: drawn where somebody looks at them, and elsewhere the digest of what would be drawn.

A process needs a second to draw its first plot, and drawing takes longer than everything else in a report.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from typing import Any

import msgspec
import vl_convert

#: Tests that look at plots.
LOOKING = (
    "tests/reports/test_example_reports.py",
    "tests/reports/test_html.py",
    "tests/reports/test_page_looks.py",
    "tests/reports/test_plots.py",
    "tests/reports/test_tampering.py",
    "tests/docs/",
    "tests/frontends/test_demo.py",
    "tests/library/",
    "tests/test_run.py",
)
_really = vl_convert.vegalite_to_svg


def replace_drawing() -> None:
    """Let plots be drawn as this module says in this process and its forks."""
    vl_convert.vegalite_to_svg = _drawn


def _drawn(spec: dict[str, Any]) -> str:
    content = msgspec.json.encode(spec)
    # The variable names the test that runs, also to the commands that it starts.
    if os.environ.get("PYTEST_CURRENT_TEST", "").startswith(LOOKING):
        return _drawn_once(content)
    return f'<svg xmlns="http://www.w3.org/2000/svg"><!-- {hashlib.sha256(content).hexdigest()} --></svg>'


@cache
def _drawn_once(content: bytes) -> str:
    svg: str = _really(msgspec.json.decode(content))
    return svg
