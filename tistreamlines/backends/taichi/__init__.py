"""GPUs: kernels compiled by Taichi for CUDA, Vulkan and Metal."""
