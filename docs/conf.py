"""The Sphinx configuration with which `make docs` builds these pages into build/docs."""

import re
from typing import Any

import branchrank

project = "BranchRank"
author = "The BranchRank authors"
copyright = author  # noqa: A001
version = release = branchrank.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = f"BranchRank {version}"
html_show_sourcelink = False

# With heading anchors, links such as [Ties](systems.md#ties) work both on the site and on a code host.
myst_heading_anchors = 4

# Users import the public classes from `branchrank`, not from the modules that define them.
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 80


def add_toctrees(_app: object, docname: str, source: list[str]) -> None:
    """Append a hidden toctree to ``index.md`` for each row of its table of all pages.

    On a code host, readers see the table, and a toctree would be a block of raw text.
    """
    if docname != "index":
        return
    _, _, pages = source[0].partition("\n## All pages\n")
    for caption, links in re.findall(r"(?m)^\| ([^|]+) \| (\[.+) \|$", pages):
        names = "\n".join(re.findall(r"\]\((.+?)\.md\)", links))
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{names}\n```\n"


def setup(app: Any) -> None:
    """Connect the toctrees to the build."""
    app.connect("source-read", add_toctrees)
