"""`track`, `batch`, `join`, `regrow`, `map`, `sift`, `fod`, `fixels`, `5tt`, `view`, `view --live`, `demo`, `devices`,
`verify` and `benchmark`."""
