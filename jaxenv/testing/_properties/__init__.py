"""The checks: every public function is the property of its name.

Its docstring states the property. It takes a `Subject` and returns a remark or nothing. It raises `Failure` if the
property does not hold and `NotApplicable` if there is nothing to check.
"""
