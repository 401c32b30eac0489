"""Compare the speed of BranchRank and of other libraries (see ``__main__``)."""
