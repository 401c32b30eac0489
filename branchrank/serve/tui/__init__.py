"""The terminal UI: what is searched, how it looks, how a source file is shown.

Importing this package raises :class:`MissingDependencyError` where Textual is not installed.
"""

from branchrank.errors import MissingDependencyError

try:
    import textual as textual
except ImportError:
    raise MissingDependencyError("textual", extra="tui", purpose="branchrank tui") from None
