# They import minigrid, jaxued and minimax, which are not test dependencies.
collect_ignore = ["make_amaze.py", "make_golden.py", "objects/make_golden.py"]
