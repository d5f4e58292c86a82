"""What kernels read: rows of voxels, the tables of a method and of a rule, and how both are stored."""
