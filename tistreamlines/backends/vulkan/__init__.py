"""Vulkan devices, driven without Taichi's runtime: Taichi compiles, and what it has compiled runs from here."""
