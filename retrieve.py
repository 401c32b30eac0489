"""Search with the local predictor. This script runs the command ``branchrank retrieve``."""

from branchrank.frontends.cli.search import retrieve

if __name__ == "__main__":
    retrieve()
