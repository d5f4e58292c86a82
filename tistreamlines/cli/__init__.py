"""The command line: `tistreamlines track`, `join`, `map`, `view`, `demo`, `devices`, `verify` and `benchmark`."""
