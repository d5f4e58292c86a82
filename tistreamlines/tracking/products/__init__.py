"""What is made of the accepted streamlines: their points, and their density."""
