"""Code that does not depend on environments: checks of arguments, files, other libraries, programs, kernels."""
