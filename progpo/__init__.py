"""progpo: staged training of LLM agents with Progress-conditioned Group Policy Optimization."""

__version__ = "0.1.0"
