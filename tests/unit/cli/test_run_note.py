"""`run.json` where it can't be written."""

from __future__ import annotations

import json
from pathlib import Path

from chainmemory import logging
from chainmemory.cli.home import RunNote
from chainmemory.cli.serve import _put_down
from chainmemory.settings import Settings


def test_a_note_that_cannot_be_written_ends_no_server(tmp_path: Path) -> None:
    settings = Settings.load(home=tmp_path)
    (tmp_path / "run.new").mkdir()  # as on a full disk, writing fails
    logging.configure("serve", file=tmp_path / "serve.log")
    try:
        _put_down(RunNote(1, "http://localhost:1", None), settings)
        assert not settings.run_file.exists()
        (tmp_path / "run.new").rmdir()
        _put_down(RunNote(2, "http://localhost:2", None), settings)
    finally:
        logging.unconfigure()
    note = RunNote.read(settings)
    assert note is not None
    assert note.pid == 2
    [line] = [json.loads(line) for line in (tmp_path / "serve.log").read_text().splitlines()]
    assert (line["level"], line["action"]) == ("error", "serve.note_failed")
