"""What an option of tracking is: its default, bounds, unit and help, and the check of its value."""
