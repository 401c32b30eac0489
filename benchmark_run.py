"""Run a benchmark. This script runs the command ``branchrank benchmark``."""

from branchrank.cli.benchmark import command

if __name__ == "__main__":
    command()
