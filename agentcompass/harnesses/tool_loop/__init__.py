"""Harness `tool_loop`: a small agent that calls tools; the conversation, its tools, its limits."""
