"""`track`, `batch`, `join`, `regrow`, `map`, `sift`, `fod`, `fixels`, `5tt`, `view`, `demo`, `devices`, `verify` and
`benchmark`."""
