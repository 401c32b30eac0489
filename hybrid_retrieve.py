"""Search with the hybrid predictor. This script runs the command ``branchrank hybrid``."""

from branchrank.frontends.cli.search import hybrid

if __name__ == "__main__":
    hybrid()
