"""GPUs that are driven without Taichi's runtime: Taichi compiles in a process of its own, and what it has compiled runs here."""
