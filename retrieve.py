"""Search with the local predictor. This script runs the command ``branchrank retrieve``."""

from branchrank.cli.retrieve import command

if __name__ == "__main__":
    command()
