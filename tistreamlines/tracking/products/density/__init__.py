"""Maps of streamlines: how many pass through each voxel, or end there, their lengths, directions and sampled values."""
