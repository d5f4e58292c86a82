"""Seeds in, batches of streamlines out: chunks, launches, memory, and points from codes."""
