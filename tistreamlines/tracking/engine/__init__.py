"""Seeds in, batches of streamlines out: chunks, launches, memory and pace, for any method."""
