"""CUDA devices, driven without Taichi's runtime."""
