"""Matrices of voxels, as probtrackx2 writes them: from seed voxels to others or to targets, and within a mask."""
