"""What is said of a server that does not answer."""

import socket

import pytest

from ccmix.index.server import ElasticsearchServer, Unavailable
from ccmix.index.target import find_target


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable) as error:
            ElasticsearchServer(find_target(url, environment={})).set_up()
    assert str(error.value) == f"{url}: Connection refused"
