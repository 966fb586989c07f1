"""Writing `settings.toml`: known settings are replaced where they stand, new ones added; comments stay."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

from chainmemory.cli.home import prepare_home
from chainmemory.settings import SETTINGS_FILE, Settings

Value = str | int


def write_settings(settings: Settings, values: Mapping[str, Value]) -> None:
    """Set `values` in the home's settings file (mode 0600), at once or not at all.

    Raises ConfigurationError where the file, or what it would become, isn't right.
    """
    prepare_home(settings.home)
    path = settings.home / SETTINGS_FILE
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for name, value in values.items():
        text = _set(text, name, value)
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:  # private by prepare_home's umask
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _set(text: str, name: str, value: Value) -> str:
    # JSON's strings and integers are TOML's too.
    line = f"{name} = {json.dumps(value, ensure_ascii=False)}"
    known = re.compile(rf"^\s*{re.escape(name)}\s*=.*$", re.MULTILINE)
    if known.search(text):
        return known.sub(lambda _: line, text, count=1)
    return text + ("" if not text or text.endswith("\n") else "\n") + line + "\n"
