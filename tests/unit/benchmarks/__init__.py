"""Tests of agentcompass.benchmarks."""
