"""The tracking algorithm, written once in the kernel language of :mod:`tistreamlines.kernels.lang`."""
