"""Wrappers of environments with several agents."""
