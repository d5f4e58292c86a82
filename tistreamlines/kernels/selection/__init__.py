"""Which streamlines are kept: the bits of regions."""
