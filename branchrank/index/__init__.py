"""Build, open and query the index of a workspace."""
