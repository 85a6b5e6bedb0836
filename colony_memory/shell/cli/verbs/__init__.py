"""The verbs: functions whose docstrings are their help, and whose imports wait until they run."""
