"""Products of the accepted streamlines: their points, their density, matrices, and values of maps along them."""
