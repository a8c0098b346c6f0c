"""Tests campaigns on a Dask cluster whose parts recognise each other by certificates."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import executor, expect_same_as_local
from support.commands import Ccmix
from support.dask_cluster import DaskCluster, dask_cluster

pytestmark = [pytest.mark.lab, pytest.mark.deep]


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """A folder with an authority, and one key and certificate that all parts use."""
    folder = tmp_path / "tls"
    folder.mkdir()
    key, request = ("-newkey", "rsa:2048", "-nodes"), str(folder / "request.pem")
    authority = (
        "-keyout",
        str(folder / "ca-key.pem"),
        "-out",
        str(folder / "ca.pem"),
        "-subj",
        "/CN=authority",
    )
    openssl("req", "-x509", *key, *authority, "-days", "2")
    openssl("req", *key, "-keyout", str(folder / "key.pem"), "-out", request, "-subj", "/CN=ccmix")
    signed = (
        "-CA",
        str(folder / "ca.pem"),
        "-CAkey",
        str(folder / "ca-key.pem"),
        "-CAcreateserial",
        "-days",
        "2",
    )
    openssl("x509", "-req", "-in", request, *signed, "-out", str(folder / "cert.pem"))
    return folder


@pytest.fixture
def cluster(tmp_path: Path, certificates: Path) -> Iterator[DaskCluster]:
    options = ("--protocol", "tls", "--tls-ca-file", str(certificates / "ca.pem"))
    own = ("--tls-cert", str(certificates / "cert.pem"), "--tls-key", str(certificates / "key.pem"))
    with dask_cluster(tmp_path / "cluster", "tls", (*options, *own)) as started:
        yield started


def test_by_tls_alone(
    cluster: DaskCluster,
    certificates: Path,
    ccmix: Ccmix,
    small_ini: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Expects a client without a certificate or without TLS to be refused with a sentence."""
    cluster.start_worker()
    where, spread = executor(cluster), tmp_path / "spread"
    plain = (where[0], where[1].replace("dask+tls", "dask"))
    for place in (plain, where):
        refused = ccmix("run", small_ini, "--lab", "-o", spread, *place, status=2)
        assert "no scheduler of Dask answers there" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TLS__CA_FILE", str(certificates / "ca.pem"))
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT", str(certificates / "cert.pem"))
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY", str(certificates / "key.pem"))
    with_certificate = Ccmix(ccmix.folder)
    done = with_certificate("run", small_ini, "--lab", "-o", spread, *where)
    assert done.returncode == 0, done.stderr
    expect_same_as_local(ccmix, small_ini, spread)
