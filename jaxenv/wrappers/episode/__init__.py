"""Wrappers of starts, ends and restarts of episodes."""
