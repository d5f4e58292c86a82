"""A page that shows streamlines in a browser: a sample of them over an image, and the density of all."""
