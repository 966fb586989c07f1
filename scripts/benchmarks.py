"""Runs the benchmarks, each in a process of its own, one after the other, and prints one table.

A benchmark is `scripts/bench_NAME.py` with `run() -> dict[str, number or text]`: a figure's description and
its value.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
CHILD = """
import importlib.util, json, sys
sys.path.insert(0, sys.argv[2])
spec = importlib.util.spec_from_file_location("benchmark", sys.argv[1])
module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print("\\n" + json.dumps(module.run()))
"""


def names() -> list[str]:
    return sorted(path.stem.removeprefix("bench_") for path in SCRIPTS.glob("bench_*.py"))


def measure(name: str) -> dict[str, float | str]:
    """Run one benchmark in its own process. Raises SystemExit where it fails."""
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, str(SCRIPTS / f"bench_{name}.py"), str(SCRIPTS.parent)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=SCRIPTS.parent,
        env={**os.environ, "PYTHONPATH": str(SCRIPTS.parent)},
    )
    if ran.returncode != 0:
        sys.exit(f"bench_{name}.py failed")
    figures: dict[str, float | str] = json.loads(ran.stdout.splitlines()[-1])
    return figures


def shown(value: float | str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def main(asked: list[str]) -> None:
    unknown = set(asked) - set(names())
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; there are: {', '.join(names())}")
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, {time.strftime('%Y-%m-%d')}")
    for name in asked or names():
        began = time.monotonic()
        figures = measure(name)
        print(f"\n{name}  ({time.monotonic() - began:.0f} s)")
        for what, value in figures.items():
            print(f"  {shown(value):>12}  {what}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
