# A script that records the behaviour of other libraries, which are not installed.
collect_ignore = ["make_mpe2.py"]
