"""Wrappers of rewards."""
