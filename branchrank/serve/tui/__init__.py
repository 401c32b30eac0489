"""The terminal UI: its search modes, its layout, and the view of a source file.

Importing this package raises :class:`MissingDependencyError` when Textual is not installed.
"""

from branchrank.errors import MissingDependencyError

try:
    import textual as textual
except ImportError:
    raise MissingDependencyError("textual", extra="tui", purpose="branchrank tui") from None
