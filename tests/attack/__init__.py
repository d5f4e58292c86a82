"""Seeded tries at breaking the command line: ``python -m tests.attack --help``."""
