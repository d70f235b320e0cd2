# They import minigrid, which is not a test dependency.
collect_ignore = ["make_golden.py", "objects/make_golden.py"]
