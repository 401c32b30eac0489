"""Run a benchmark (a script that calls the installed package)."""

from branchrank.cli.benchmark import command

if __name__ == "__main__":
    command()
