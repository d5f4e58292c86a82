"""Several devices: a process for each, which tracks ranges of the seeds, and what it exchanges with the run."""
