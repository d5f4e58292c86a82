"""Stopping rules: the options of each, and how it makes the tables of its kernels."""
