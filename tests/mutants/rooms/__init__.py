"""The mutants of each room."""
