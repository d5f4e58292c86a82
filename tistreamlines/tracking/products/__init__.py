"""What is made of the accepted streamlines: their points, their density, and values of maps along them."""
