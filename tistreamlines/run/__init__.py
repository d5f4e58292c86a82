"""A whole run: inputs, seeds, tracking, writing and the record."""
