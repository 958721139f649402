"""`rag dev` as a person starts it, in a folder of documents that is hostile, asked by real clients."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from rag_assets.settings import variables
from rag_assets.store.server import stop_server
from tests.support.hostile_folder import HostileFolder
from tests.support.imports import HOUSE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TOKEN = "a-token-that-nobody-guesses"
RAG = str(Path(sys.executable).with_name("rag"))
WHAT = "{ assetsOrError { ... on AssetConnection { nodes { key { path } } } } }"

ADD_PARTITION = """mutation {
    addDynamicPartition(
        partitionsDefName: "tenant", partitionKey: "evil",
        repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "rag"}
    ) { __typename }
}"""


@dataclass
class Served:
    """A running `rag dev`; `said` is what it has written to the terminal."""

    port: int
    home: Path
    folder: HostileFolder
    log: Path
    process: subprocess.Popen[bytes]

    def ask(self, method: str, path: str, token: str | None = TOKEN, **more: object) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=60) as client:
            return client.request(method, path, headers={**headers, **more.pop("headers", {})}, **more)  # type: ignore[arg-type, dict-item]

    @property
    def said(self) -> str:
        return self.log.read_text()

    def wait_for(self, text: str, seconds: float = 240) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.5)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    base = tmp_path_factory.mktemp("dev")
    base.chmod(0o755)
    home, folder, log = base / "home", HostileFolder(base / "documents"), base / "terminal"
    (folder.path / "read").mkdir()
    (folder.path / "read" / "pump.txt").write_text("The pump is dry.")
    unset = {"DAGSTER_HOME", *(variable.name for variable in variables())}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"RAG_HOME": str(home), "PYTHONPATH": str(HOUSE), "RAG_DEV_TOKEN": TOKEN}
    scope = ("--tenant", "acme", "--bot", "help")
    port = _free_port()
    try:
        words = [RAG, "ingest", str(folder.path / "read"), *scope, "--profile", "static-64"]
        done = subprocess.run(words, cwd=folder.path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        with log.open("wb") as terminal:
            process = subprocess.Popen(
                [RAG, "dev", "--port", str(port)], cwd=folder.path, env=environment, stdout=terminal, stderr=terminal,
                umask=0o022,
            )  # fmt: skip
        found = Served(port, home, folder, log, process)
        deadline = time.monotonic() + 240
        while True:
            assert process.poll() is None, found.said
            assert time.monotonic() < deadline, found.said
            try:
                if found.ask("GET", "/server_info").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.5)
        yield found
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=150) in (0, 130)
        assert "Traceback" not in found.said
    finally:
        stop_server(home)


def test_a_new_file_is_published_and_told_in_a_few_quiet_lines(served: Served) -> None:
    (served.folder.path / "read" / "valve.txt").write_text("The valve is shut.")
    served.wait_for("ingest_sources acme: done in")
    served.wait_for("ingest_pair acme static-64: done in")
    lines = served.said.splitlines()
    assert lines[0].startswith(f"Dagster UI: http://127.0.0.1:{served.port}")
    assert len(lines) < 10, served.said
    assert "SupersessionWarning" not in served.said
    assert "(1 new or changed)" in served.said
    assert "RUN_START" not in served.said
    assert "RUN_START" in (served.home / "dagster" / "runs.log").read_text(), "what runs say is kept"


def test_no_process_of_it_has_imported_anything_from_the_folder(served: Served) -> None:
    served.wait_for("ingest_pair acme static-64: done in")
    assert served.folder.ran() == []


def test_the_page_and_what_it_asks_for_are_there(served: Served) -> None:
    assert "/_next/static/" in served.ask("GET", "/assets", headers={"accept": "text/html"}).text
    own = {"origin": f"http://127.0.0.1:{served.port}", "sec-fetch-site": "same-origin"}
    answer = served.ask("POST", "/graphql", json={"query": WHAT}, headers=own).json()
    names = {node["key"]["path"][0] for node in answer["data"]["assetsOrError"]["nodes"]}
    assert {"sources", "chunks", "knowledge_chunks"} <= names

    async def subscribe() -> dict[str, object]:
        address = f"ws://127.0.0.1:{served.port}/graphql"
        async with connect(
            address, subprotocols=[Subprotocol("graphql-ws")], proxy=None, origin=own["origin"],  # type: ignore[arg-type]
            additional_headers={"authorization": f"Bearer {TOKEN}"},
        ) as socket_:  # fmt: skip
            await socket_.send(json.dumps({"type": "connection_init", "payload": {}}))
            answer: dict[str, object] = json.loads(await socket_.recv())
            return answer

    assert asyncio.run(subscribe()) == {"type": "connection_ack"}


def test_nobody_else_gets_anything(served: Served) -> None:
    mutation = {"query": ADD_PARTITION}
    wrong: list[dict[str, object]] = [
        {"method": "GET", "path": "/graphql", "params": mutation},
        {"method": "POST", "path": "/graphql", "json": mutation, "headers": {"origin": "https://evil.example"}},
        {"method": "POST", "path": "/graphql", "json": mutation, "headers": {"host": "evil.example"}},
        {
            "method": "POST",
            "path": "/graphql",
            "content": json.dumps(mutation),
            "headers": {"content-type": "text/plain"},
        },
        {"method": "POST", "path": "/graphql", "json": mutation, "token": None},
        {"method": "GET", "path": "/", "token": None},
    ]
    assert [served.ask(**one).status_code for one in wrong] == [405, 403, 403, 415, 401, 401]  # type: ignore[arg-type]
    partitions = "{ assetNodes { partitionKeys } }"
    assert "evil" not in served.ask("POST", "/graphql", json={"query": partitions}).text

    async def listen() -> None:
        async with connect(
            f"ws://127.0.0.1:{served.port}/graphql", subprotocols=[Subprotocol("graphql-ws")], proxy=None
        ):
            pass

    with pytest.raises(InvalidStatus, match="403"):
        asyncio.run(listen())


def test_the_token_is_known_to_the_webserver_alone(served: Served) -> None:
    assert TOKEN not in served.said
    assert [path for path in served.home.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()] == []
    for child in psutil.Process(served.process.pid).children(recursive=True):
        try:
            words, known = child.cmdline(), TOKEN in child.environ().values()
        except psutil.Error:
            continue
        assert TOKEN not in " ".join(words)
        assert not known or any("rag_assets.launch" in word for word in words), words


def test_what_it_writes_is_for_nobody_else(served: Served) -> None:
    served.wait_for("ingest_pair acme static-64: done in")
    found = [path for part in ("dagster", "storage") for path in (served.home / part).rglob("*")]
    assert any("compute_logs" in path.parts for path in found)
    assert [path for path in found if path.lstat().st_mode & 0o077 and not path.is_socket()] == []
