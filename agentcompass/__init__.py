"""AgentCompass distributed: agent evaluations on many machines, each attempt counted once."""

__version__ = "0.1.0"
