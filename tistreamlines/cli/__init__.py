"""The command line: `tistreamlines track`, `demo`, `devices`, `verify` and `benchmark`."""
