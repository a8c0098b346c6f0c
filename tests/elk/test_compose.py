"""Tests elk/compose.yaml as far as possible without Docker: its form, its promises, and the script
of its services.

The script talks to a server that records its requests: neither the images nor Kibana are available
here.
"""

import base64
import http.server
import json
import os
import re
import shutil
import stat
import subprocess
import threading
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.commands import REPOSITORY, Ccmix
from support.elasticsearch_node import VERSION, Node
from support.published_archives import DEMO_FILE

ELK = REPOSITORY / "elk"
FILE = ELK / "compose.yaml"
SETUP = ELK / "compose" / "setup.sh"
SECRETS = ("elastic", "kibana_system", "ccmix", "kibana-key")

Compose = dict[str, Any]


@pytest.fixture(scope="module")
def compose() -> Compose:
    content: Compose = yaml.safe_load(FILE.read_text())
    return content


def test_docker_compose_understands_it(compose: Compose, tmp_path: Path) -> None:
    if not shutil.which("docker-compose"):
        pytest.skip("there is no docker-compose: run 'tools/setup --dev'")
    version = subprocess.run(
        ["docker-compose", "version", "--short"], capture_output=True, text=True, check=True
    ).stdout
    known = dict(compose)
    if version.startswith("1."):
        del known["name"]  # of the specification, but not known to Debian 12's docker-compose
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(known))
    argv = [
        "docker-compose",
        "--file",
        str(tmp_path / "compose.yaml"),
        "--project-directory",
        str(ELK),
        "config",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) >= {
        "elasticsearch",
        "kibana",
        "kibana-setup",
    }


def test_the_images_are_official_and_of_the_version_that_is_tested(compose: Compose) -> None:
    images = {service["image"] for service in compose["services"].values()}
    assert images == {f"{name}:{VERSION}" for name in ("elasticsearch", "kibana", "logstash")}


def test_ports_are_on_loopback_unless_asked_for(compose: Compose) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert len(ports) == 3
    assert all(port.startswith("${CCMIX_BIND:-127.0.0.1}:") for port in ports)


def test_all_services_have_a_memory_limit(compose: Compose) -> None:
    assert all(service.get("mem_limit") for service in compose["services"].values())


def test_what_stays_is_healthy_and_what_depends_on_it_waits(compose: Compose) -> None:
    services = compose["services"]
    staying = {name for name, service in services.items() if service["restart"] != "no"}
    assert staying == {"elasticsearch", "kibana", "logstash"}
    assert all("healthcheck" in services[name] for name in staying)
    for service in services.values():
        for name, on in service.get("depends_on", {}).items():
            wanted = "service_healthy" if name in staying else "service_completed_successfully"
            assert on == {"condition": wanted}


def test_files_that_are_mounted_are_there(compose: Compose) -> None:
    mounts = [
        mount.split(":")
        for service in compose["services"].values()
        for mount in service.get("volumes", ())
    ]
    assert {source for source, *_ in mounts if not source.startswith(".")} == set(
        compose["volumes"]
    )
    assert all((ELK / source).exists() for source, *_ in mounts if source.startswith("."))


def test_no_password_is_written_anywhere() -> None:
    texts = [
        FILE.read_text(),
        SETUP.read_text(),
        *(file.read_text() for file in ELK.glob("logstash/**/*.*")),
    ]
    given = [
        match
        for text in texts
        for match in re.findall(r"password\"?(?: =>|:|=) *\"?([^\s\"]+)", text, re.IGNORECASE)
    ]
    assert all(value.startswith(("${", "%s", "/secrets/")) for value in given), given


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    subprocess.run([SETUP, "secrets", folder], check=True)
    return folder


def test_passwords_are_made_once_and_for_the_images_user_alone(secrets: Path) -> None:
    made = {file.name: file.read_text() for file in secrets.iterdir()}
    assert set(made) == set(SECRETS)
    assert len(set(made.values())) == len(SECRETS)
    assert all(re.fullmatch("[A-Za-z0-9]{32}", password) for password in made.values())
    assert all(
        (file.stat().st_uid, stat.S_IMODE(file.stat().st_mode)) == (1000, 0o400)
        for file in secrets.iterdir()
    )
    subprocess.run([SETUP, "secrets", secrets], check=True)
    assert {file.name: file.read_text() for file in secrets.iterdir()} == made


class Asked(http.server.ThreadingHTTPServer):
    """Accepts every request and keeps (method and path, user and password, body); passes on to
    `node` the requests that a node can answer.
    """

    def __init__(self) -> None:
        self.node: Node | None = None
        self.requests: list[tuple[str, str, bytes]] = []
        self.answer: dict[str, Any] = {"success": True}
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Asked

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        login = base64.b64decode(
            (self.headers["Authorization"] or "").removeprefix("Basic ")
        ).decode()
        self.server.requests.append((f"{self.command} {self.path}", login, body))
        status, answer = 200, self.server.answer
        known = self.path.startswith(("/_index_template/", "/ccmix-")) and "/_ilm/" not in self.path
        if self.server.node and known:
            try:
                answer = self.server.node(self.command, self.path, _without_lifecycle(body))
            except urllib.error.HTTPError as error:
                status = error.code
        said = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)

    do_GET = do_PUT = do_POST = do_HEAD = _any

    def log_message(self, format: str, *args: object) -> None:
        pass


def _without_lifecycle(body: bytes) -> Any:
    """Removes the lifecycle, which the tests' node doesn't support."""
    if not body:
        return None
    template = json.loads(body)
    template["template"]["settings"]["index"].pop("lifecycle", None)
    return template


@pytest.fixture
def server() -> Iterator[Asked]:
    with Asked() as asked:
        thread = threading.Thread(target=asked.serve_forever)
        thread.start()
        yield asked
        asked.shutdown()
        thread.join()


def run(what: str, secrets: Path, server: Asked) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"ELASTICSEARCH": server.url, "KIBANA": server.url}
    return subprocess.run(
        [SETUP, what, secrets], env=environment, capture_output=True, text=True, check=False
    )


def test_elasticsearch_gets_users_roles_policies_and_templates(
    secrets: Path, server: Asked
) -> None:
    done = run("elasticsearch", secrets, server)
    assert done.returncode == 0, done.stderr
    password = (secrets / "elastic").read_text()
    assert {login for _, login, _ in server.requests} == {f"elastic:{password}"}
    bodies = {path: json.loads(body) for path, _, body in server.requests if body}
    assert bodies["POST /_security/user/kibana_system/_password"] == {
        "password": (secrets / "kibana_system").read_text()
    }
    assert bodies["PUT /_security/user/ccmix"]["password"] == (secrets / "ccmix").read_text()
    for kind, place in (
        ("role", "_security/role"),
        ("template", "_index_template"),
        ("policy", "_ilm/policy"),
    ):
        folder = (
            ELK
            / "elasticsearch"
            / {"role": "roles", "template": "index-templates", "policy": "ilm"}[kind]
        )
        files = list(folder.glob("*.json"))
        assert files
        for file in files:
            assert bodies[f"PUT /{place}/{file.stem}"] == json.loads(file.read_text())
    assert password not in done.stdout + done.stderr


@pytest.mark.deep  # a node of its own: those of tests/index share one
def test_what_is_set_up_so_takes_a_campaign(
    secrets: Path, server: Asked, elasticsearch: Node, ccmix: Ccmix, tmp_path: Path
) -> None:
    """Runs the commands of docs/howto/kibana.md with a real Elasticsearch; at the second start,
    nothing is lost.
    """
    server.node = elasticsearch
    try:
        assert run("elasticsearch", secrets, server).returncode == 0
        done = ccmix("index", DEMO_FILE, "--url", elasticsearch.url, "--spool", tmp_path / "spool")
        assert done.returncode == 0, done.stderr
        elasticsearch("POST", "/ccmix-*/_refresh")
        assert run("elasticsearch", secrets, server).returncode == 0
        assert elasticsearch("GET", "/ccmix-runs/_count")["count"] == 12
        assert elasticsearch("GET", "/ccmix-packets-*/_count")["_shards"]["total"] == 1
        assert "POST /ccmix-packets-empty/_ilm/remove" in [path for path, *_ in server.requests]
    finally:
        elasticsearch.clear()


def test_kibana_gets_the_dashboards(secrets: Path, server: Asked) -> None:
    done = run("kibana", secrets, server)
    assert done.returncode == 0, done.stderr
    ((path, _, body),) = server.requests
    assert path == "POST /api/saved_objects/_import?overwrite=true"
    assert (ELK / "kibana" / "ccmix.ndjson").read_bytes() in body


def test_objects_that_kibana_refuses_are_an_error(secrets: Path, server: Asked) -> None:
    server.answer = {"success": False, "errors": [{"id": "ccmix-run"}]}
    done = run("kibana", secrets, server)
    assert done.returncode == 1
    assert "ccmix-run" in done.stderr
