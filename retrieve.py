"""Search with the local predictor (a script that calls the installed package)."""

from branchrank.cli.retrieve import command

if __name__ == "__main__":
    command()
