"""BranchRank: benchmark retrieval pipelines over documentation."""

__version__ = "0.1.0"
