"""How commands print: JSON for programs, plain lines for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import typer


def print_json(value: object) -> None:
    """Print `value` as indented JSON."""
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def printable(text: object) -> str:
    """Return text without control characters, which could steer a terminal."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "�" for char in str(text))


def as_text(value: Mapping[str, Any], indent: int = 0) -> str:
    """Return a mapping as aligned lines; nested ones are indented, what is null or empty is `-`."""
    width = max((len(key) for key in value), default=0)
    lines = []
    for key, item in value.items():
        label = " " * indent + key.ljust(width)
        if isinstance(item, Mapping) and item:
            lines += [" " * indent + key, as_text(item, indent + 2)]
        elif isinstance(item, Sequence) and not isinstance(item, str) and item:
            lines += [" " * indent + key]
            for entry in item:
                text = as_text(entry, indent + 4) if isinstance(entry, Mapping) else printable(entry)
                lines += [" " * (indent + 2) + "- " + text.lstrip()]
        else:
            shown = {True: "yes", False: "no"}.get(item, item) if isinstance(item, bool) else item
            lines += [f"{label}  {printable(shown) if shown not in (None, '', [], {}) else '-'}"]
    return "\n".join(lines)
