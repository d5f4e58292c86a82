"""A whole run: parameters, inputs, seeds, tracking, writing and the record."""
