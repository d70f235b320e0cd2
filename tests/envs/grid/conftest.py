# It needs the package minigrid, which the tests do without.
collect_ignore = ["make_golden.py"]
