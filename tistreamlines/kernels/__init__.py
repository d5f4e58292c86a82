"""The algorithm, in the kernel language: how a streamline grows, step by step."""
