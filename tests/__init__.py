"""The tests of AgentCompass."""
