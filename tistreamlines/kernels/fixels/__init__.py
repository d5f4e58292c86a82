"""Lobes of an orientation function, which are the fixels of a voxel."""
