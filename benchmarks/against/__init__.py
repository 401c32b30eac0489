"""Compare the speed of BranchRank with other libraries (see ``__main__``)."""
