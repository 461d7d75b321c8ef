"""Calls of plug-in code whose deadlines hold, in both pools."""
