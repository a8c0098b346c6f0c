"""Tests that certificates are verified, and that secrets come from the environment or a file and
are visible nowhere else.
"""

import base64
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccmix.index.target import TargetError, find_target
from ccmix.server_url import read_url
from support.commands import REPOSITORY, Ccmix, wait_for
from support.elasticsearch_node import Node
from support.filled_index import RECORDED
from support.index import Index, of_archive, of_index
from support.proxy import CUT, Fault, Forward, Reply, Request, proxy

SECRET = "tell-nobody-4711"
PASSWORD = f"{SECRET}-ü"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, a certificate of it for localhost (server), and one for another name (other)."""
    folder = tmp_path_factory.mktemp("certificates")
    _openssl(
        folder, "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca"
    )
    for name, host in (("server", "localhost"), ("other", "elsewhere.example.org")):
        (folder / "extensions").write_text(f"subjectAltName=DNS:{host}\n")
        _openssl(
            folder,
            f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={host}",
        )
        signed = (
            f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out "
            f"{name}.pem -days 2"
        )
        _openssl(folder, f"{signed} -extfile extensions")
    return folder


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)


def _tls(certificates: Path, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
    return context


@pytest.fixture
def credentials(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "credentials"
    file.write_text(f"# of the writer\nuser = ccmix\npassword = {PASSWORD}\n")
    file.chmod(0o600)
    return file  # type: ignore[return-value]


def test_certificate_is_verified_by_the_ca_file(
    index: Index, server: Node, certificates: Path
) -> None:
    with proxy(server.port, tls=_tls(certificates, "server")) as between:
        made = index(RECORDED[0], "--ca", certificates / "ca.pem", url=between.url)
    assert made.returncode == 0, made.stderr
    expected = of_archive(RECORDED[0])
    assert expected
    assert of_index(server) == expected


@pytest.mark.parametrize(
    ("name", "with_ca"), [("server", False), ("other", True)], ids=["unknown CA", "other name"]
)
def test_certificate_that_is_not_the_server_s_gets_nothing(
    index: Index, server: Node, certificates: Path, name: str, with_ca: bool
) -> None:
    ca = ("--ca", certificates / "ca.pem") if with_ca else ()
    with proxy(server.port, tls=_tls(certificates, name)) as between:
        made = index(RECORDED[0], *ca, url=between.url, CCMIX_INDEX_API_KEY=SECRET)
        assert between.requests == []
    assert made.returncode == 1
    assert "certificate is not trusted" in made.stderr
    assert SECRET not in made.stderr


def _authorization(
    index: Index, server: Node, certificates: Path, *options: object, **environment: str
) -> set[str]:
    """Holds the requests that the server received."""
    with proxy(server.port, tls=_tls(certificates, "server")) as between:
        ca = str(certificates / "ca.pem")
        made = index("--setup", *options, url=between.url, CCMIX_INDEX_CA=ca, **environment)
        assert made.returncode == 0, made.stderr
        return {request.headers.get("authorization", "") for request in between.requests}


def test_api_key_from_the_environment(index: Index, server: Node, certificates: Path) -> None:
    assert _authorization(index, server, certificates, CCMIX_INDEX_API_KEY=SECRET) == {
        f"ApiKey {SECRET}"
    }


def test_user_and_password_from_the_environment_or_a_file(
    index: Index, server: Node, certificates: Path, credentials: Path
) -> None:
    basic = {"Basic " + base64.b64encode(f"ccmix:{PASSWORD}".encode()).decode()}
    given = {"CCMIX_INDEX_USER": "ccmix", "CCMIX_INDEX_PASSWORD": PASSWORD}
    assert _authorization(index, server, certificates, **given) == basic
    assert _authorization(index, server, certificates, "--credentials", credentials) == basic
    assert (
        _authorization(index, server, certificates, CCMIX_INDEX_CREDENTIALS=str(credentials))
        == basic
    )


def test_refused_credentials_end_it_and_lose_nothing(index: Index, server: Node) -> None:
    async def refuse(request: Request, forward: Forward) -> Reply | None:
        return Reply(
            401,
            b'{"error":{"type":"security_exception","reason":"unable to '
            b'authenticate"},"status":401}',
        )

    with proxy(server.port, refuse) as between:
        made = index(RECORDED[0], url=between.url, CCMIX_INDEX_API_KEY=SECRET)
    assert made.returncode == 1
    assert "401: the credentials are not accepted" in made.stderr
    assert SECRET not in made.stderr + made.stdout
    assert index.spooled()


def test_secret_is_in_no_process_list_file_or_message(
    index: Index, server: Node, certificates: Path, credentials: Path
) -> None:
    """Checks it while a process sends to a server that accepts nothing, and afterwards."""

    async def silent(request: Request, forward: Forward) -> Reply | None:
        return CUT

    fault: Fault = silent
    with proxy(server.port, fault, _tls(certificates, "server")) as between:
        options = (
            "--credentials",
            credentials,
            "--ca",
            certificates / "ca.pem",
            "--patience",
            "3",
        )
        running = index.start(RECORDED[0], *options, url=between.url)
        wait_for(lambda: between.bulks, 60, "a bulk request")
        listed = subprocess.run(
            ["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True
        ).stdout
        assert SECRET not in listed
        said = "".join(running.communicate(timeout=100))
    assert SECRET not in said
    assert running.returncode == 1
    assert index.spooled()
    assert all(
        SECRET.encode() not in file.read_bytes()
        for file in index.state.rglob("*")
        if file.is_file()
    )


def test_credentials_in_the_clear_are_refused() -> None:
    with pytest.raises(TargetError, match="use https"):
        find_target("http://elastic.example.org:9200", environment={"CCMIX_INDEX_API_KEY": SECRET})
    for private in (
        "http://localhost:9200",
        "http://127.0.0.1:9200",
        "http://[::1]:9200",
        "https://elastic.example.org",
    ):
        assert (
            find_target(private, environment={"CCMIX_INDEX_API_KEY": SECRET}).credentials.api_key
            == SECRET
        )


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        ("api-key = x\n", 0o640, "other users may read it"),
        ("api-key = x\nuser = y\npassword = z\n", 0o600, "both an API key and a user"),
        ("user = y\n", 0o600, "a user needs a password"),
        ("key = x\n", 0o600, "only the lines"),
        ("user = x\nuser = y\npassword = z\n", 0o600, "only the lines"),
        (f"api-key = {SECRET}é\n", 0o600, "the API key has characters that are not"),
        (f"user = a:b\npassword = {SECRET}\n", 0o600, "the user has characters that are not"),
        (f"user = a\npassword = {SECRET}\a\n", 0o600, "the password has characters that are not"),
        (f"api-key = {SECRET}\udcff\n", 0o600, "it is not UTF-8"),
    ],
)
def test_file_of_credentials_that_is_wrong(
    tmp_path: Path, content: str, mode: int, reason: str
) -> None:
    file = tmp_path / "credentials"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    file.chmod(mode)
    with pytest.raises(TargetError, match=reason) as refused:
        find_target("https://localhost", file, environment={})
    assert SECRET not in str(refused.value)


def test_secret_with_a_line_break_is_refused_before_a_header_has_it() -> None:
    with pytest.raises(TargetError, match="the environment: the API key has characters") as refused:
        find_target("https://localhost", environment={"CCMIX_INDEX_API_KEY": f"{SECRET}\nx"})
    assert SECRET not in str(refused.value)


def test_file_of_certificates_that_has_none(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(bytes(range(256)))
    with pytest.raises(TargetError, match="not a file of CA certificates in PEM"):
        find_target("https://localhost", ca=file, environment={})


def test_secrets_are_not_in_what_objects_say_of_themselves() -> None:
    environment = {"CCMIX_INDEX_USER": "ccmix", "CCMIX_INDEX_PASSWORD": SECRET}
    assert SECRET not in repr(find_target("https://localhost", environment=environment))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "x:9200",
        "https://",
        f"https://u:{SECRET}@x",
        "https://x?api_key=1",
        "https://x/#y",
        "https://x:99999",
        "https://[::1",
        f"https://u:{SECRET}@x\u2100y",
        "a b",
    ],
)
def test_url_that_is_none(url: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read_url(url)
    assert SECRET not in str(error.value)


def test_password_in_the_ini_file_is_refused_before_anything_is_written(
    ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    small_ini.write_text(small_ini.read_text() + f"index = https://user:{SECRET}@localhost\n")
    refused = ccmix("run", small_ini, "--lab", "-o", tmp_path / "out")
    assert refused.returncode == 2
    assert "remove them" in refused.stderr
    assert SECRET not in refused.stderr
    assert not (tmp_path / "out").exists()


def test_roles_are_shipped() -> None:
    assert {file.stem for file in (REPOSITORY / "elk/elasticsearch/roles").iterdir()} == {
        "ccmix-setup",
        "ccmix-writer",
        "ccmix-reader",
    }
