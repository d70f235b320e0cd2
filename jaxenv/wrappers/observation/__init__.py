"""Wrappers of observations."""
