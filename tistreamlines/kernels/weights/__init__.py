"""Weights of streamlines: which fixels they visit, and how much each of them counts."""
