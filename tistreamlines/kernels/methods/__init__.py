"""Ways of choosing a direction: one algorithm, one file."""
