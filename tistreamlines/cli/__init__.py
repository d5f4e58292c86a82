"""`track`, `batch`, `join`, `regrow`, `map`, `fod`, `fixels`, `5tt`, `view`, `demo`, `devices`, `verify` and
`benchmark`."""
