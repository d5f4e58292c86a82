"""Functions on the sphere at a point: harmonics, samples and peaks."""
