"""Values of maps along streamlines: at each point, their statistics, and tables of them."""
