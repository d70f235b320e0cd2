"""The checks, one function for each property, grouped by what they are about."""
