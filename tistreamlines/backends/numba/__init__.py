"""The CPU: kernels compiled by Numba, and the prefix sum."""
