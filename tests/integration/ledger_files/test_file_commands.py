"""`chainmemory ledger verify`, `seal` and `append`, as a user runs them."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.served import Served, serving
from tests.support.server import ROOT, cli, environment
from tests.support.tenants import Files, checked, make_tenant, record, written


class Desk:
    """A root with the agent cc, and a home whose configured server isn't there."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.root = folder / "agents"
        self.cc = make_tenant(self.root, records=("m1", "m2"))
        with socket.socket() as free:  # nobody listens on a port that was bound and let go
            free.bind(("127.0.0.1", 0))
            self.nobody = f"http://127.0.0.1:{free.getsockname()[1]}"

    def run(self, *arguments: str, url: str | None = None, data: str = "") -> CompletedProcess[str]:
        return cli(
            self.home,
            "ledger",
            *arguments,
            data=data,
            CHAINMEMORY_AGENTS_DIR=str(self.root),
            CHAINMEMORY_URL=url or self.nobody,
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with an agents folder."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "agents").mkdir()
    (folder / "home").mkdir()
    with serving(folder / "home", agents_dir=folder / "agents") as server:
        yield server


@pytest.fixture
def agents(served: Served) -> Path:
    return served.app.site.settings.agents_dir


def test_verify_prints_one_line(desk: Desk) -> None:
    ran = desk.run("verify", "--agent", "cc")
    assert ran.stdout == "cc: chain intact (2 entries) · sealed 2 · altered 0 · missing 0 · unsealed 0\n"
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not desk.home.exists(), "a check makes no home"


def test_verify_takes_a_root_and_reads_twice_when_told(desk: Desk, tmp_path: Path) -> None:
    make_tenant(tmp_path / "other", "dd", ("m1",))
    ran = desk.run("verify", "--agent", "dd", "--root", str(tmp_path / "other"), "--deep")
    assert (ran.returncode, ran.stdout[:29]) == (0, "dd: chain intact (1 entries) ")


def test_problems_are_listed_by_id(desk: Desk) -> None:
    desk.cc.change_record("m2", lambda value: value.update(summary="forged"))
    desk.cc.record("m1").unlink()
    desk.cc.record("x\x1b[31m").write_bytes(b'{"summary":"x"}')
    ran = desk.run("verify", "--agent", "cc")
    assert ran.returncode == 1
    assert ran.stdout.splitlines() == [
        "cc: chain intact (2 entries) · sealed 0 · altered 1 · missing 1 · unsealed 1",
        "  altered   m2",
        "  missing   m1",
        r"  unsealed  x\x1b[31m",
    ]


def test_a_broken_chain_says_where_and_why(desk: Desk) -> None:
    desk.cc.put_lines(desk.cc.lines()[::-1])
    ran = desk.run("verify", "--agent", "cc")
    assert ran.returncode == 1
    assert ran.stdout.splitlines() == [
        "cc: chain broken at 1 (2 entries) · sealed 0 · altered 0 · missing 0 · unsealed 0 · disputed 2",
        "  broken    line 1: its position is wrong",
        "  disputed  m1",
        "  disputed  m2",
    ]


def test_all_checks_every_agent_and_wrong_comes_before_unchecked(desk: Desk) -> None:
    make_tenant(desk.root, "Dee Dee", ("m1",))
    assert desk.run("verify", "--all").returncode == 0
    (desk.root / "link").symlink_to(desk.root / "cc")
    ran = desk.run("verify", "--all")
    assert (ran.returncode, len(ran.stdout.splitlines())) == (2, 2)
    assert "link: " in ran.stderr
    desk.cc.record("m1").unlink()
    ran = desk.run("verify", "--all", "--json")
    assert ran.returncode == 1
    told = {one["agent_id"]: one for one in json.loads(ran.stdout)["agents"]}
    assert told["Dee Dee"]["ok"] is True
    assert told["cc"]["missing"] == ["m1"]
    assert told["link"]["code"] == "no_plain_file"


def test_json_has_the_shape_of_the_route(desk: Desk, served: Served, agents: Path) -> None:
    make_tenant(agents, "shape", ("m1", "m2"))
    by_route = served.request("GET", "/ledger/verify?agent_id=shape")
    by_command = json.loads(desk.run("verify", "--agent", "shape", "--root", str(agents), "--json").stdout)
    # The route asks the chain too, and this server has none.
    assert by_route == (200, {**by_command, "ok": None})
    assert by_command["head"]["seq"] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify",),
        ("verify", "--all", "--agent", "cc"),
        ("verify", "--agent", "nobody"),
        ("verify", "--agent", "../agents"),
        ("verify", "--all", "--root", "nowhere"),
        ("seal",),
        ("seal", "--agent", "nobody"),
        ("append", "--agent", "cc", "nowhere.json"),
    ],
)
def test_what_could_not_be_checked_ends_with_2(desk: Desk, arguments: tuple[str, ...]) -> None:
    ran = desk.run(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("chainmemory: ")


def test_a_ledger_that_may_not_be_read_is_unchecked(desk: Desk) -> None:
    (desk.cc.path / "ledger.lock").unlink()
    (desk.cc.path / "ledger.lock").mkdir()
    ran = desk.run("verify", "--agent", "cc")
    assert (ran.returncode, ran.stdout) == (2, "")


def test_append_saves_and_seals_one_record_once(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "m3.json").write_bytes(written({"summary": "no id of its own"}))
    ran = desk.run("append", "--agent", "cc", str(tmp_path / "m3.json"))
    assert ran.returncode == 0
    assert ran.stdout == f"cc: m3 is sealed: entry 3 {desk.cc.entries()[2]['hash']}\n"
    again = json.loads(desk.run("append", "--agent", "cc", str(tmp_path / "m3.json"), "--json").stdout)
    assert (again["record"], again["ledger_seq"], again["known"]) == ("m3", 3, True)
    assert checked(desk.cc).ok is True


def test_append_from_stdin_makes_a_new_agent(desk: Desk) -> None:
    ran = desk.run("append", "--agent", "new", "-", data=json.dumps(record("m1")))
    assert (ran.returncode, ran.stdout[:27]) == (0, "new: m1 is sealed: entry 1 ")
    assert "New agent new" in ran.stderr
    assert checked(Files(desk.root / "new")).sealed == ["m1"]
    ran = desk.run("append", "--agent", "not a slug", "-", data=json.dumps(record("m1")))
    assert ran.returncode == 2
    assert desk.run("append", "--agent", "cc", "-", data='{"summary": "no id"}').returncode == 2


def test_seal_writes_the_files_itself_where_the_port_refuses(desk: Desk) -> None:
    desk.cc.record("m3").write_bytes(written(record("m3")))
    whole = desk.cc.ledger.stat().st_size
    desk.cc.ledger.write_bytes(desk.cc.ledger.read_bytes() + b'{"torn')
    ran = desk.run("seal", "--agent", "cc")
    assert ran.stdout.splitlines() == [
        "cc: chain intact (3 entries) · sealed 3 · altered 0 · missing 0 · unsealed 0",
        "  adopted   m3",
    ]
    assert ran.returncode == 0
    warning = json.loads(ran.stderr)
    told = (warning["action"], warning["level"], warning["path"], warning["offset"])
    assert told == ("ledger.torn", "warning", str(desk.cc.ledger), whole)
    assert desk.run("seal", "--all").stdout.count("adopted") == 0


def test_seal_of_a_broken_ledger_ends_with_1_and_the_report(desk: Desk) -> None:
    desk.cc.put_lines(desk.cc.lines()[1:])
    ran = desk.run("seal", "--agent", "cc")
    assert ran.returncode == 1
    assert "is broken" in ran.stderr
    assert ran.stdout.startswith("cc: chain broken at 1 (1 entries)")


def test_seal_goes_through_a_server_that_answers(desk: Desk, served: Served, agents: Path) -> None:
    files = make_tenant(agents, "owned", ("m1",))
    files.record("m2").write_bytes(written(record("m2")))
    ran = desk.run("seal", "--agent", "owned", "--root", str(agents), url=f"http://127.0.0.1:{served.port}")
    assert ran.returncode == 0
    assert ran.stdout.splitlines()[1:] == ["  adopted   m2"]
    assert files.entries()[-1]["op"] == "adopt"


def test_a_server_with_other_agents_seals_nothing(desk: Desk, served: Served) -> None:
    desk.cc.record("m3").write_bytes(written(record("m3")))
    ran = desk.run("seal", "--agent", "cc", url=f"http://127.0.0.1:{served.port}")
    assert (ran.returncode, "another folder" in ran.stderr) == (2, True)
    assert len(desk.cc.lines()) == 2


@contextlib.contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """Listen, and answer every request with these bytes, or never."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            kept = []
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    kept.append(connection)
                    if answer is not None:
                        with connection, contextlib.suppress(OSError):
                            connection.recv(65536)
                            connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def http(status: str, body: str) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    "answer",
    [
        http("503 Service Unavailable", '{"ok":false}'),
        http("404 Not Found", ""),
        http("200 OK", "<html>"),
        http("200 OK", '{"status":"up"}'),
        http("302 Found\r\nlocation: /healthz2", ""),
        b"SSH-2.0-OpenSSH\r\n",
        b"",
        None,
    ],
    ids=["503", "404", "html", "another service", "redirect", "no HTTP", "hangs up", "silent"],
)
def test_seal_refuses_what_is_unclear(
    desk: Desk, answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chainmemory.cli.ledger_server.PROBE_S", 0.3)
    desk.cc.record("m3").write_bytes(written(record("m3")))
    before = desk.cc.ledger.read_bytes()
    with answering(answer) as url:
        ran = desk.run("seal", "--agent", "cc", url=url)
    assert ran.returncode == 2
    assert "It isn't clear whether a server runs" in ran.stderr
    assert desk.cc.ledger.read_bytes() == before


@pytest.mark.parametrize("url", ["http://no-such-host.invalid:8420", "http://127.0.0.1:99999"])
def test_seal_refuses_an_address_that_cannot_be_reached(desk: Desk, url: str) -> None:
    ran = desk.run("seal", "--agent", "cc", url=url)
    assert (ran.returncode, "isn't clear" in ran.stderr) == (2, True)


def test_watch_reports_as_things_change_and_ends_on_ctrl_c(desk: Desk) -> None:
    arguments = ["ledger", "watch", "--all", "--interval", "0.05"]
    environ = environment(desk.home, CHAINMEMORY_AGENTS_DIR=str(desk.root))
    with subprocess.Popen(
        [sys.executable, "-m", "chainmemory.cli", *arguments],
        env=environ,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None

        def line() -> str:
            assert watching.stdout is not None
            return watching.stdout.readline().rstrip()

        assert line() == "cc: chain intact (2 entries) · sealed 2 · altered 0 · missing 0 · unsealed 0"
        whole = desk.cc.record("m2").read_bytes()
        desk.cc.change_record("m2", lambda value: value.update(summary="forged"))
        assert line() == "cc: chain intact (2 entries) · sealed 1 · altered 1 · missing 0 · unsealed 0"
        assert line() == "  altered   m2"
        desk.cc.record("m2").write_bytes(whole)
        assert line() == "cc: chain intact (2 entries) · sealed 2 · altered 0 · missing 0 · unsealed 0"
        make_tenant(desk.root, "dd", ("m1",))
        told = line()
        while not told.startswith("dd: chain intact (1 entries) · sealed 1"):
            assert told, "it says how dd is"
            told = line()
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 0
        assert watching.stderr is not None
        assert watching.stderr.read() == ""
