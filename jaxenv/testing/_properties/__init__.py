"""The checks: one function per property, with the name of the property, grouped by topic."""
