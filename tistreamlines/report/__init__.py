"""A page about a run: its pictures, its counts and what it was made of, in one HTML file."""
