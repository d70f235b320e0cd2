"""Wrappers of images."""
