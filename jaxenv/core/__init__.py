"""The interface of environments: tasks, wrappers and their bases, rows, params, restarts, the registry."""
