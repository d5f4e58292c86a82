"""Weights and selections of streamlines, with which their density in each fixel becomes that of fibres."""
