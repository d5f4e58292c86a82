"""Which streamlines are kept: regions, lengths and ends."""
