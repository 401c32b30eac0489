"""Compare BranchRank's speed with other libraries' speed (see ``__main__``)."""
