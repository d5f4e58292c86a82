"""Connectomes: how many streamlines join two nodes of a parcellation, and measures of these."""
