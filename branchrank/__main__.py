"""``python -m branchrank``: the command line."""

from branchrank.frontends.cli.main import main

if __name__ == "__main__":
    main()
