"""Search with the hybrid predictor (a script that calls the installed package)."""

from branchrank.cli.hybrid import command

if __name__ == "__main__":
    command()
