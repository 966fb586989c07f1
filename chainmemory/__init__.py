"""ChainMemory: a memory for AI agents that can be proved."""
