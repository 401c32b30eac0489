"""The terminal UI, in which the user searches a workspace.

Importing this package raises :class:`MissingDependencyError` if Textual is not installed.
"""

from branchrank.errors import MissingDependencyError

try:
    import textual as textual
except ImportError:
    raise MissingDependencyError("textual", extra="tui", purpose="the terminal UI") from None
