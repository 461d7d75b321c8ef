"""Benchmark `shell_tasks`: ten small programs to write or repair, in POSIX shell and awk."""
