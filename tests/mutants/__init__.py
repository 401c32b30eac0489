"""Defects on purpose: a table of them, each noticed by a test, and a sample that cosmic-ray draws."""
