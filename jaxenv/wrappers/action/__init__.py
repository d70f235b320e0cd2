"""Wrappers of actions."""
