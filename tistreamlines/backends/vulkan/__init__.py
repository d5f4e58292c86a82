"""Vulkan devices, driven without Taichi's runtime."""
