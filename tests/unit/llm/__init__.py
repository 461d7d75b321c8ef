"""Tests of agentcompass.llm."""
