"""The same streamlines on every device: runs each in a process of its own and compares the bits."""
