"""Fuzzing: what reads bytes of somebody else is given mutated ones; see ``fuzz.target``."""
