"""Run a benchmark. This script runs the command ``branchrank benchmark``."""

from branchrank.frontends.cli.benchmark import benchmark

if __name__ == "__main__":
    benchmark()
