"""ChainMemory: a memory for AI agents that can be proved."""

__version__ = "0.1.0"
