# They import minigrid, jaxued, minimax, lbforaging and JaxMARL, which are not test dependencies.
collect_ignore = ["make_amaze.py", "make_foraging.py", "make_overcooked.py", "make_golden.py", "objects/make_golden.py"]
