"""A page about a run: its pictures, its counts and its inputs, in one HTML file."""
