"""The contracts: frozen pydantic models that import nothing else of ours."""
