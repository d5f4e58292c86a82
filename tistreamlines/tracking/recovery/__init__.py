"""Recoveries, which help a half past an invalid end: particles, backtracking."""
