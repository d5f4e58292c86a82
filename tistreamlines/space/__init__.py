"""Shared parts: grids, batches of streamlines, the sampled sphere and its vertices, spherical harmonics."""
