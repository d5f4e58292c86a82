"""Where streamlines start: points from a file, from a mask or an image, at random or on a grid."""
