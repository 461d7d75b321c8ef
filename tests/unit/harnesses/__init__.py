"""Tests of agentcompass.harnesses."""
