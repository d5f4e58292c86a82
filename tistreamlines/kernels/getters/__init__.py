"""Direction getters: the algorithms, and what several of them share."""
