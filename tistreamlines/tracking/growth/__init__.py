"""Chunks of streamlines, and how they grow on a device: launches, memory and pace, for any method."""
