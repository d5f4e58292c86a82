"""What many rooms share: grids, batches of streamlines, the sampled sphere and its vertices, spherical harmonics."""
