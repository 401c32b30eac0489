"""Search with the hybrid predictor: a thin door onto the installed package."""

from branchrank.cli.hybrid import command

if __name__ == "__main__":
    command()
