# A module of environments that imports gymnax, which tests import when they need it.
collect_ignore = ["gymnax_environments.py"]
