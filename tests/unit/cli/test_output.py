"""What is printed: escaped in one place, exact as JSON, written nowhere else."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import unicodedata
from pathlib import Path

import pytest

from chainmemory.cli import output
from chainmemory.cli.output import as_text, escaped, print_json, printable, say
from chainmemory.cli.streams import Guarded, NobodyReads, OutputLost

CLI = Path(output.__file__).parent
HOSTILE = "\0 \x1b[2J \x07 \r \x7f \x85 \x9b1m \u200b \u2028 \u202e \u2066 \u2069 \ufeff " + (
    "\U000e0041 \U000e0101 \udcff"
)


def test_controls_overrides_and_what_cannot_be_seen_are_escaped() -> None:
    assert escaped(HOSTILE) == (
        r"\x00 \x1b[2J \x07 \x0d \x7f \x85 \x9b1m \u200b \u2028 \u202e \u2066 \u2069 \ufeff \U000e0041 "
        r"\U000e0101 \udcff"
    )


def test_nothing_of_unicodes_controls_and_formats_comes_through_but_visible_signs() -> None:
    dangerous = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    through = [
        char
        for char in map(chr, range(0x110000))
        if unicodedata.category(char) in dangerous and escaped(char) == char
    ]
    # Arabic and Kaithi number signs and Egyptian joiners have a shape of their own.
    shaped = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    assert {ord(char) for char in through if char not in "\n\t"} <= shaped | {*range(0x13430, 0x13440)}


@pytest.mark.parametrize("text", ["Grüße, 日本語, é, 👍️, C:\\new, [red]x[/red], a\u00a0b", "two\n\tlines"])
def test_other_text_is_shown_as_it_is(text: str) -> None:
    assert escaped(text) == text


def test_a_part_of_a_line_has_no_line_of_its_own() -> None:
    assert printable("one\r\ntwo\nthree\tfour\x1b") == r"one two three four\x1b"
    assert as_text({"a": "x\ny", "b": ["\x1b\nx"], "c": {"d": "\u202e"}}).splitlines() == [
        "a  x y",
        "b",
        r"  - \x1b x",
        "c",
        r"  d  \u202e",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii", "cp1252"])
def test_json_is_exact_in_any_encoding_and_cannot_steer_a_terminal(encoding: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    value = {"text": HOSTILE + " Ω 👍", "number": 1.5, "none": None}
    with contextlib.redirect_stdout(stream):
        print_json(value)
    written = stream.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    assert json.loads(written) == value
    assert escaped(written) == written
    assert ("Ω" in written) == (encoding == "utf-8")


def test_lines_for_people_are_escaped_and_fit_any_encoding() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "latin-1")
    guarded = Guarded(stream, must_arrive=True)
    with contextlib.redirect_stdout(guarded):  # type: ignore[type-var]
        say("é 日 \x1b")
        print("\x1b past say", flush=True)
    assert stream.buffer.getvalue() == b"\xe9 \\u65e5 \\x1b\n\\x1b past say\n"  # type: ignore[attr-defined]


class Broken(io.StringIO):
    """A stream that can't be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


def test_a_stream_that_failed_once_stays_lost() -> None:
    full = Guarded(Broken(OSError(28, "No space left on device")), must_arrive=True)
    for _ in range(2):
        with pytest.raises(OutputLost, match="No space"):
            full.write("x")
    with pytest.raises(NobodyReads):
        Guarded(Broken(BrokenPipeError(32, "Broken pipe")), must_arrive=True).write("x")
    with pytest.raises(OutputLost, match="closed"):
        Guarded(None, must_arrive=True).write("x")
    assert Guarded(None, must_arrive=False).write("x") == 1


def test_no_command_prints_past_the_one_place() -> None:
    past = []
    for path in sorted(CLI.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in ("print", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write"):
                    past.append((path.name, called))
    assert past == [("output.py", "sys.stdout.write")]
