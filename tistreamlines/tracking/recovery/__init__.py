"""What helps a half on where it may not end: particles, backtracking."""
