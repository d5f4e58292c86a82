"""Direction getters and stopping rules: the registry, and how each makes its tables."""
