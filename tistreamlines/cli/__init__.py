"""The command line: `tistreamlines track`, `join`, `demo`, `devices`, `verify` and `benchmark`."""
