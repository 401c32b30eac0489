"""BranchRank against what a user would pick instead: ratios of times inside one run. See ``__main__``."""
