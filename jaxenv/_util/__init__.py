"""What knows nothing of environments: checks of arguments, files, other libraries, compiled programs, kernels."""
