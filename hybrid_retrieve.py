"""Search with the hybrid predictor. This script runs the command ``branchrank hybrid``."""

from branchrank.cli.hybrid import command

if __name__ == "__main__":
    command()
