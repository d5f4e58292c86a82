"""Commands: `track`, `join`, `map`, `fod`, `fixels`, `5tt`, `view`, `demo`, `devices`, `verify`, `benchmark`."""
