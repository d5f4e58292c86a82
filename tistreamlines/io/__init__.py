"""Files: images, gradients, orientations and seeds are read, tractograms and their records written."""
