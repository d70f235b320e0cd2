# They import minigrid, jaxued, minimax and JaxMARL, which are not test dependencies.
collect_ignore = ["make_amaze.py", "make_overcooked.py", "make_golden.py", "objects/make_golden.py"]
