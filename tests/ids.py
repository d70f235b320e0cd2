"""The ids of environments, for tests that leave further ids of a class to thorough runs."""

import jaxenv


def with_first_of_class():
    """Every id, and whether it is the first one of its class."""
    classes = set()
    for id in jaxenv.ids():
        entry = jaxenv.spec(id).entry_point
        yield id, entry not in classes
        classes.add(entry)
