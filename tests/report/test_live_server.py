"""The server of the live page: addresses, events, who may ask; wrong input of the command; static pages."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from live_runs import GrowingRun, served

from twoclocks.cli import main
from twoclocks.report.live.events import MOST_KEPT, EventLog
from twoclocks.report.live.guard import HEADERS, POLICY, Guard
from twoclocks.report.live.site import MARK
from twoclocks.runs import Run

TOKEN = "abcdefgh"


class Answer:
    def __init__(self, address: str, path: str, method: str = "GET", **headers: str) -> None:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        self.status, self.headers, self.body = response.status, response.headers, response.read()
        connection.close()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_gpt: Run, tiny_dit: Run) -> Path:
    root = tmp_path_factory.mktemp("live") / "runs"
    shutil.copytree(tiny_gpt.path, root / "gpt")
    shutil.copytree(tiny_dit.path, root / "dit")
    (root.parent / "secret.json").write_text("secret", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with served(folder) as found:
        yield found


def test_the_pages_and_their_data(address: str) -> None:
    table = Answer(address, "/data/runs.json").json
    assert [run["folder"] for run in table["runs"]] == ["runs/dit", "runs/gpt"]
    for run in table["runs"]:
        assert Answer(address, f"/run-{run['id']}.html").status == 200
        page = Answer(address, f"/data/run-{run['id']}.json").json
        assert page["run"]["state"] == "finished" and len(page["panels"]) == 2
        assert Answer(address, f"/data/details-{run['id']}.json").json["samples"]["step"] == 60
    html = Answer(address, "/").body.decode()
    assert " style=" not in html and not re.search(r"<script(?! src)|<style| on\w+=", html)
    for name in re.findall(r'(?:src|href)="(assets/[^"]+)"', html):
        assert Answer(address, f"/{name}").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/run-000000000000.html",
        "/data/run-nothing.json",
        "/data/other-000000000000.json",
        "/assets/../server.py",
        "/assets/..%2f..%2fpages.py",
        "/assets/%2e%2e%2fserver.py",
        "/../secret.json",
        "/data/..%2f..%2fsecret.json",
        "/run-..%2f..%2fsecret.json",
        "//etc/passwd",
        "/gpt/manifest.json",
    ],
)
def test_no_path_leads_out_of_the_table(address: str, path: str) -> None:
    answer = Answer(address, path)
    assert answer.status == 404 and b"secret" not in answer.body


def test_every_answer_has_the_headers(address: str) -> None:
    for path in ("/", "/data/runs.json", "/nothing", "/assets/style.css"):
        found = Answer(address, path).headers
        assert all(found.get_all(name) == [value] for name, value in HEADERS.items()), path
    assert "unsafe" not in POLICY and POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self';")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_get_and_head(address: str, method: str) -> None:
    answer = Answer(address, "/data/runs.json", method)
    assert answer.status == 405 and answer.headers["allow"] == "GET, HEAD"
    head = Answer(address, "/events", "HEAD")
    assert head.status == 200 and head.body == b""


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:8765", 421),
        ("192.168.0.1", 421),
        ("", 421),
    ],
)
def test_the_host_header_names_this_server(address: str, host: str, status: int) -> None:
    assert Answer(address, "/data/runs.json", host=host).status == status


def test_addresses_of_this_machine_count_where_others_may_ask() -> None:
    guard = Guard(None, "0.0.0.0", 80, TOKEN)  # type: ignore[arg-type]
    assert guard.is_here("192.168.0.1:80") and guard.is_here(f"{socket.gethostname()}:80")
    assert not guard.is_here("evil.example:80")


def test_a_token_is_asked_for_once(folder: Path) -> None:
    with served(folder, token=TOKEN) as address:
        for path in ("/", "/data/runs.json", "/events", "/assets/style.css", "/?token=abcdefgx", "/?token=%C3%A9"):
            assert Answer(address, path).status == 403
        first = Answer(address, f"/data/runs.json?a=1&token={TOKEN}")
        assert first.status == 303 and first.headers["location"] == "/data/runs.json?a=1"
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert Answer(address, "/data/runs.json", cookie=cookie.partition(";")[0]).status == 200
        assert Answer(address, "/data/runs.json", cookie=cookie.partition("=")[0] + "=wrong").status == 403
        assert Answer(address, f"//evil.example/?token={TOKEN}").headers["location"] == "/evil.example/"


class Stream:
    """The events of a server, one by one."""

    def __init__(self, address: str, path: str, **headers: str) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
        self.connection.request("GET", path, headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.headers["content-type"].startswith("text/event-stream")

    def next(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while line := self.response.fp.readline().decode().rstrip("\r\n") or not found:
            if isinstance(line, str) and line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                found[name] = value
        return {**found, "data": json.loads(found["data"])}

    def until(self, kind: str, **values: Any) -> dict[str, Any]:
        while True:
            event = self.next()
            if event["event"] == kind and all(event["data"].get(key) == value for key, value in values.items()):
                return event


def test_events_carry_new_rows_and_resume(tmp_path: Path, tiny_gpt: Run) -> None:
    growing = GrowingRun(tiny_gpt, tmp_path / "runs" / "mine", evaluations=2)
    with served(tmp_path / "runs") as address:
        (row,) = Answer(address, "/data/runs.json").json["runs"]
        page = Answer(address, f"/data/run-{row['id']}.json").json
        own = Stream(address, f"/events?run={row['id']}&after={page['event']}")
        growing.add()
        event = own.until("rows")
        while not event["data"]["points"]:
            event = own.until("rows")
        assert [point[0] for point in event["data"]["points"]] == [20] and event["data"]["decision"]["step"] == 20
        own.connection.close()
        growing.add(2)
        table = Stream(address, "/events", **{"Last-Event-ID": event["id"]})
        assert table.until("run", step=60)["data"]["evaluations"] == 5  # what was missed comes, without points
        table.connection.close()
        again = Stream(address, f"/events?run={row['id']}", **{"Last-Event-ID": event["id"]})
        steps: list[int] = []
        while 60 not in steps:
            steps += [point[0] for point in again.until("rows")["data"]["points"]]
        assert steps == [40, 60]
        again.connection.close()
        GrowingRun(tiny_gpt, tmp_path / "runs" / "second", evaluations=1)
        other = Stream(address, "/events", **{"Last-Event-ID": "00000000-5"})
        assert other.next()["event"] == "reset"  # of another server: load everything
        other.connection.close()
        shutil.rmtree(growing.path)
        last = Stream(address, f"/events?after={page['event']}")
        assert last.until("run", state="deleted")["data"]["id"] == row["id"]
        last.connection.close()


def test_an_event_log_says_when_events_are_gone() -> None:
    log = EventLog()
    for number in range(MOST_KEPT + 10):
        log.append("run", "x", {"number": number})
    assert log.after(9) is None and len(log.after(10) or []) == MOST_KEPT
    assert log.after(log.last) == [] and log.after(log.last + 1) is None
    assert log.number(log.name(7)) == 7 and log.number("other-7") is None and log.number("") is None


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nowhere"], "DIR: 'nowhere' does not exist; give a folder of runs, or make it first"),
        (["file.txt"], "DIR: 'file.txt' is not a folder; give the folder that contains it"),
        (["--port", "70000"], "--port: 70000 is not allowed; use a number from 0 (any free port) to 65535"),
        (
            ["--host", "0.0.0.0"],
            "--host: '0.0.0.0' can be reached from other machines; "
            "add --allow-remote, or use an SSH tunnel to 127.0.0.1",
        ),
        (["--once"], "--once: needs --out DIR; give both to write static files, or neither to serve"),
        (["--out", "site"], "--out: needs --once; give both to write static files, or neither to serve"),
        (["--once", "--out", "."], "--out: '.' is not an empty folder; choose another one"),
        (["--once", "--out", "file.txt"], "--out: 'file.txt' is not a folder; choose another one"),
    ],
)
def test_wrong_input_is_one_line(work: Path, words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "runs").mkdir()
    (work / "file.txt").touch()
    assert main(["serve", *words]) == 2
    assert capsys.readouterr().err == f"twoclocks: {line}\n"


def test_a_taken_port_is_one_line(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "runs").mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    fix = f"--port: {port} is taken; use another one, such as --port {port + 1}"
    assert capsys.readouterr().err == f"twoclocks: {fix}\n"


def test_without_the_extra_one_line_names_it(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (work / "runs").mkdir()
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve"]) == 2
    assert capsys.readouterr().err == "twoclocks: serve: uvicorn is not installed; run pip install 'twoclocks[live]'\n"


@pytest.mark.slow
def test_the_command_serves_an_empty_folder_and_ends_with_ctrl_c(work: Path) -> None:
    (work / "runs").mkdir()
    words = [sys.executable, "-m", "twoclocks", "serve", "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
    assert address is not None
    assert Answer(address[0], "/data/runs.json").json["runs"] == []
    stream = Stream(address[0], "/events")
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=20)
    assert (process.returncode, out, errors) == (0, "", "")
    stream.connection.close()


def test_static_pages_are_the_served_ones(folder: Path, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(folder), "--once", "--out", "site"]) == 0
    assert capsys.readouterr().out == "site/index.html\n"
    names = sorted(path.relative_to("site").as_posix() for path in Path("site").rglob("*") if path.is_file())
    with served(folder) as address:
        runs = [run["id"] for run in Answer(address, "/data/runs.json").json["runs"]]
        for run in runs:
            answer = Answer(address, f"/data/run-{run}.json").json
            script = Path(f"site/data/run-{run}.js").read_text(encoding="utf-8")
            name, _, written = script.removesuffix(";\n").partition(" = ")
            assert name == f'twoclocks.known["data/run-{run}.json"]'
            del answer["event"]
            assert json.loads(written) == answer
    pages = [f"run-{run}.html" for run in runs]
    data = [f"data/{kind}-{run}.js" for run in runs for kind in ("run", "details")]
    assert {*pages, *data, "index.html", "data/runs.js", MARK, "assets/chart.js"} <= {*names}
    Path("site/run-000000000000.html").touch()  # of a run that is gone
    assert main(["serve", str(folder), "--once", "--out", "site"]) == 0
    assert sorted(path.relative_to("site").as_posix() for path in Path("site").rglob("*") if path.is_file()) == names
    Path("site", MARK).unlink()
    assert main(["serve", str(folder), "--once", "--out", "site"]) == 2
    assert main(["serve", str(folder), "--once", "--out", str(folder / "gpt" / "site")]) == 2
