"""Rules for what may cross a border of an environment: what a call is given, actions, what a task returns, rows."""
