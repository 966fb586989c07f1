"""Why an operation was not applied."""

from __future__ import annotations


class Rejection(Exception):
    """One op is invalid; the builder turns this into a value, so it never leaves the package.

    `code` is one of grammar.md's, `error` a sentence a model can act on.
    """

    def __init__(self, code: str, error: str) -> None:
        super().__init__(error)
        self.code = code
        self.error = error


def invalid_value(error: str) -> Rejection:
    """Reject a value that is wrong whatever the state holds."""
    return Rejection("invalid_value", error)


def invalid_transition(error: str) -> Rejection:
    """Reject an op that the state of an item forbids."""
    return Rejection("invalid_transition", error)
