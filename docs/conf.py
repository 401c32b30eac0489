"""Sphinx: `make docs` builds these pages into build/docs, with warnings as errors."""

import branchrank

project = "BranchRank"
author = "The BranchRank authors"
copyright = author  # noqa: A001
version = release = branchrank.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = f"BranchRank {version}"
html_show_sourcelink = False

# Links such as [Ties](systems.md#ties) work here, on a code host, and in an editor.
myst_heading_anchors = 4

# The classes of the public API are defined in other modules than the one that a user imports them from.
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 80
