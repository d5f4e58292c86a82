"""The streamlines themselves: how their points come back to the host, and what a tractogram holds of them."""
