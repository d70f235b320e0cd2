# make_golden.py imports minigrid, which is not a test dependency.
collect_ignore = ["make_golden.py"]
