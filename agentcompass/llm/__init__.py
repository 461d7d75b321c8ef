"""Clients of model endpoints."""
