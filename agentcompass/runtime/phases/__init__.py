"""The phases of an execution: each takes values and returns a value; a failure is a value, too."""
