"""The command line: `track`, `join`, `map`, `5tt`, `view`, `demo`, `devices`, `verify` and `benchmark`."""
