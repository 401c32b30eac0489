"""The terminal UI.

Importing this package raises :class:`MissingDependencyError` if Textual is not installed.
"""

from branchrank.errors import MissingDependencyError

try:
    import textual as textual
except ImportError:
    raise MissingDependencyError("textual", extra="tui", purpose="the terminal UI") from None
