"""From kernels to the text of one compiler, and the folder in which compiled code is kept."""
