"""Wrappers that report, count and film."""
