"""The host side of tracking: direction getters, stopping rules, seeds, selection, and what grows streamlines."""
