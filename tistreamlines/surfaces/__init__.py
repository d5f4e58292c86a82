"""Closed surfaces: around labels, smoothed, and the share of each voxel that they enclose."""
