"""Harness `mini_swe_agent`: the agent of the package mini-swe-agent, on our model and environment."""
