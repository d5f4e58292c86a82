"""Fits to a diffusion series: brain mask, FA, orientation functions, and the frame of its gradients."""
