"""The classic control problems."""
