"""One task: its k attempts -> its value in each series, and its row in a table."""
