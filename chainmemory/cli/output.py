"""How commands print: JSON for programs, plain lines for people; never what could steer a terminal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

# Controls (C0, DEL, C1), line separators, bidirectional overrides, what is invisible (zero width, fillers,
# tags, the variation selectors that can carry hidden bytes) and halves of surrogate pairs. Newline and tab
# are layout; U+FE0E and U+FE0F belong to visible emoji.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LAYOUT = re.compile("\r\n|[\n\t]")


def say(text: object = "", *, err: bool = False) -> None:
    """Print lines for people, to stderr if `err`; what could steer a terminal is shown escaped."""
    stream = sys.stderr if err else sys.stdout
    if stream is None:  # closed, in a process that doesn't guard its streams
        return
    stream.write(escaped(str(text)) + "\n")
    stream.flush()


def print_json(value: object) -> None:
    """Print `value` as indented JSON, in ASCII where the output's encoding isn't a Unicode one."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    ascii_only = not encoding.lower().replace("_", "-").startswith("utf")
    text = json.dumps(value, indent=2, ensure_ascii=ascii_only, allow_nan=False)
    # Only strings can hold these characters, and there \uXXXX is the same string.
    sys.stdout.write(_UNSEEN.sub(lambda found: _json_escape(found[0]), text) + "\n")
    sys.stdout.flush()


def escaped(text: str) -> str:
    """Return text with what could steer a terminal or hide in it as `\\x1b` or `\\u202e`; lines stay."""
    return _UNSEEN.sub(lambda found: _escape(ord(found[0])), text)


def printable(text: object) -> str:
    """Return text as part of one line: line breaks and tabs are spaces, what can't be seen is escaped."""
    return escaped(_LAYOUT.sub(" ", str(text)))


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


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
