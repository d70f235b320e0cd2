"""Small tasks from here and there."""
