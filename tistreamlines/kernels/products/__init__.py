"""What is made of streamlines that have grown: their points."""
