"""Run a benchmark: a thin door onto the installed package."""

from branchrank.cli.benchmark import command

if __name__ == "__main__":
    command()
