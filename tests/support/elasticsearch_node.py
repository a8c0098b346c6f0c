"""A real Elasticsearch: Elastic's cut-down distribution from Maven Central, run by a user who is
not root.

`mvn` fetches it into the cache once. It lacks ILM, API keys, roles and TLS: docs/development.md
    says what is
untested so.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.ports import free_port

VERSION = "8.19.21"
ARTIFACT = f"org.elasticsearch.distribution.integ-test-zip:elasticsearch:{VERSION}:zip"
SHA256 = "215d5f3dbf0609a149f6218a9e47b6ae2df34ebbff3c5754e35f15a5e5393c8a"
STARTS_WITHIN_S = 240
_STARTER = ThreadPoolExecutor(1)
USER = "nobody"  # Elasticsearch refuses to run as root

CONFIGURATION = """
network.host: 127.0.0.1
http.port: {http}
transport.port: {transport}
discovery.type: single-node
xpack.security.enabled: false
action.destructive_requires_name: false
cluster.routing.allocation.disk.threshold_enabled: false
path.data: {folder}/data
path.logs: {folder}/logs
"""


class Node:
    """A node with its own empty data folder; it keeps port and data when it is killed and
    started again.
    """

    def __init__(self, home: Path, folder: Path) -> None:
        self._home = home
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        config = folder / "config"
        shutil.copytree(home / "config", config)
        text = CONFIGURATION.format(http=self.port, transport=free_port(), folder=folder)
        (config / "elasticsearch.yml").write_text(text)
        _give_away(folder)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def cpu_s(self) -> float:
        """Processor time that it has taken since it was started."""
        assert self._process
        stats = (
            Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            for name in self._pids()
        )
        return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf(
            "SC_CLK_TCK"
        )  # utime, stime: proc(5)

    def start(self) -> None:
        """Returns when it can be searched and written to."""
        environment = (
            os.environ
            | {
                "ES_JAVA_HOME": str(_java_home()),
                "ES_PATH_CONF": str(self._folder / "config"),
                "ES_JAVA_OPTS": "-Xms512m -Xmx512m -XX:TieredStopAtLevel=1",  # C2 costs more than it gains in minutes
                "ES_TMPDIR": str(self._folder / "tmp"),
                "HOME": str(self._folder),
            }
        )
        # the Java process ends when its launcher has gone; a change of the user would make the
        # kernel forget the signal
        argv = ["setpriv", "--pdeathsig", "KILL", str(self._home / "bin/elasticsearch"), "--quiet"]
        if os.geteuid() == 0:
            argv = ["setpriv", f"--reuid={USER}", "--regid=nogroup", "--clear-groups", *argv]
        with (self._folder / "output").open("ab") as output:
            # the signal comes when the thread that started the launcher ends, so it is one that
            # lasts
            self._process = _STARTER.submit(
                subprocess.Popen,
                argv,
                env=environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            ).result()
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (self._folder / "output").read_text()
                self.kill()
                raise RuntimeError(f"Elasticsearch does not start:\n{said[-3000:]}")
            time.sleep(0.2)

    def kill(self) -> None:
        """SIGKILL to the node's own session: the launcher and its Java process."""
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """A request and its JSON answer. Raises urllib.error.HTTPError."""
        data = (
            body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        )
        kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": kind}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            said = answer.read()
        return json.loads(said) if said else None

    def clear(self) -> None:
        """Removes all indices and templates of ccmix."""
        self("DELETE", "/ccmix-*")
        with contextlib.suppress(urllib.error.HTTPError):  # there may be none
            self("DELETE", "/_index_template/ccmix-*")

    def _ready(self) -> bool:
        try:
            status = self("GET", "/_cluster/health?wait_for_status=yellow&timeout=1s")["status"]
        except OSError:
            return False
        return status in ("yellow", "green")

    def _pids(self) -> list[str]:
        assert self._process
        made = subprocess.run(
            ["ps", "-o", "pid=", "-s", str(self._process.pid)],
            capture_output=True,
            text=True,
            check=True,
        )
        return made.stdout.split()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process
        os.killpg(self._process.pid, number)


@contextmanager
def elasticsearch_node() -> Iterator[Node]:
    """A running node. Raises RuntimeError if it can't be fetched or started."""
    archive = fetch()
    with tempfile.TemporaryDirectory(prefix="ccmix-elasticsearch-") as name:
        place = Path(name)
        place.chmod(0o755)
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(place)
        home = place / f"elasticsearch-{VERSION}"
        for file in (home / "bin").iterdir():
            file.chmod(0o755)
        folder = place / "node"
        for part in ("data", "logs", "tmp"):
            (folder / part).mkdir(parents=True)
        node = Node(home, folder)
        try:
            node.start()
            yield node
        finally:
            node.kill()


def fetch() -> Path:
    """The distribution in the cache. If it isn't there yet, Maven fetches and checks it."""
    cache = Path(os.environ.get("CCMIX_CACHE") or Path.home() / ".cache/ccmix") / "elasticsearch"
    file = cache / f"elasticsearch-{VERSION}.zip"
    if not file.exists():
        if not shutil.which("mvn"):
            raise RuntimeError("there is no mvn: run 'tools/setup --dev'")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            argv = ["mvn", "--batch-mode", "--quiet", "dependency:copy", f"-Dartifact={ARTIFACT}"]
            made = subprocess.run(
                [*argv, f"-DoutputDirectory={folder}"],
                capture_output=True,
                text=True,
                check=False,
                cwd=folder,
            )
            found = Path(folder) / file.name
            if made.returncode or not found.exists():
                raise RuntimeError(f"Maven does not fetch {ARTIFACT}:\n{made.stdout[-2000:]}")
            with found.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            if digest != SHA256:
                raise RuntimeError(
                    f"{ARTIFACT} is another file than expected: its SHA-256 is {digest}"
                )
            found.rename(file)
    return file


def _java_home() -> Path:
    java = shutil.which("java")
    if not java:
        raise RuntimeError("there is no java: run 'tools/setup --dev'")
    return Path(java).resolve().parent.parent


def _give_away(folder: Path) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, USER, "nogroup")
