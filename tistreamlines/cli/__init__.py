"""The command line: `tistreamlines track`, `join`, `view`, `demo`, `devices`, `verify` and `benchmark`."""
