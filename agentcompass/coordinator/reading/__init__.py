"""Runs of any writer as a program or a person wants them: by another formula, compared, as rows."""
