"""Seeds in, batches of streamlines out: the loop over chunks, whose streamlines are selected and collected."""
