"""The thirty operations, one class each; importing this package registers them all."""

from chainmemory.state.operation import OPERATIONS
from chainmemory.state.operations import decisions, environment, knowledge, plans, scalars

__all__ = ["OPERATIONS", "decisions", "environment", "knowledge", "plans", "scalars"]
