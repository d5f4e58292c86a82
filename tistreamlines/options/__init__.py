"""All options of a run: their defaults, their checks, and which of them belong together."""
