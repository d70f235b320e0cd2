"""Patterns for the messages of errors: they name the owner, the argument and the value, and leave the wording open."""

import re


def like(text: str) -> str:
    """The pattern of a message, in which ``...`` stands for any words: ``"TimeLimit: limit ...got 0"``."""
    return ".*".join(map(re.escape, text.split("...")))
