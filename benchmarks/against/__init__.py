"""Compare the speed of BranchRank with that of other libraries (see ``__main__``)."""
