# It imports mpe2 and jaxmarl, which are not test dependencies.
collect_ignore = ["make_mpe2.py"]
