"""Rules that end a streamline: one rule, one file."""
