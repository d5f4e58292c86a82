"""Data whose bundles are known, what tracks them, and the scores of what is tracked."""
