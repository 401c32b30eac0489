"""Search with the local predictor: a thin door onto the installed package."""

from branchrank.cli.retrieve import command

if __name__ == "__main__":
    command()
