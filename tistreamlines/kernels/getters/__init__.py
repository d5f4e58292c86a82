"""Direction getters: one algorithm, one file, and what several of them share."""
