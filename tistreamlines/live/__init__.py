"""Live tracking: runs on data that stay in memory, and the page and the server that make them of clicks."""
