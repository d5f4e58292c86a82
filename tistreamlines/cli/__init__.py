"""The command line: `track`, `join`, `map`, `fixels`, `5tt`, `view`, `demo`, `devices`, `verify` and `benchmark`."""
