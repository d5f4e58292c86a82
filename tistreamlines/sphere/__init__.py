"""The sampled sphere, spherical harmonics, and which vertex is nearest to a direction."""
