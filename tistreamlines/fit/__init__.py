"""Fits to a diffusion series: brain mask, FA, responses, orientation functions of tissues, and the gradients' frame."""
