# It imports jaxmarl, which is not a test dependency.
collect_ignore = ["make_coin_game.py"]
