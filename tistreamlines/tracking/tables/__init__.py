"""Tables of kernels: rows of voxels, the tables of a method and of a rule, and how the cache stores them."""
