"""Products of streamlines that have grown: their points."""
