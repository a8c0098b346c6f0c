"""Tests which texts name a host, and that others are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccmix.hosts.address import AddressKind, HostAddress, parse_host


@pytest.mark.parametrize(
    ("text", "address", "name"),
    [
        ("localhost", HostAddress(AddressKind.LOCAL, "localhost"), "localhost"),
        ("127.0.0.1", HostAddress(AddressKind.LOCAL, "localhost"), "localhost"),
        ("::1", HostAddress(AddressKind.LOCAL, "localhost"), "localhost"),
        ("netns:h-1.a", HostAddress(AddressKind.NAMESPACE, "h-1.a"), "netns:h-1.a"),
        ("dtn", HostAddress(AddressKind.SSH, "dtn"), "dtn"),
        (
            "me@dtn.example.org",
            HostAddress(AddressKind.SSH, "dtn.example.org", "me"),
            "me@dtn.example.org",
        ),
        ("me@localhost", HostAddress(AddressKind.SSH, "localhost", "me"), "me@localhost"),
        ("192.0.2.1", HostAddress(AddressKind.SSH, "192.0.2.1"), "192.0.2.1"),
        ("2001:db8::1", HostAddress(AddressKind.SSH, "2001:db8::1"), "2001:db8::1"),
        (
            "me@[fe80::1%eth0]",
            HostAddress(AddressKind.SSH, "fe80::1%eth0", "me"),
            "me@fe80::1%eth0",
        ),
    ],
)
def test_names(text: str, address: HostAddress, name: str) -> None:
    assert parse_host(text) == address
    assert str(address) == name


def test_a_user_for_hosts_that_name_none() -> None:
    assert str(parse_host("dtn", user="me")) == "me@dtn"
    assert str(parse_host("you@dtn", user="me")) == "you@dtn"
    assert str(parse_host("localhost", user="me")) == "localhost"
    assert str(parse_host("netns:a", user="me")) == "netns:a"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-oProxyCommand=touch x",
        "-4",
        "a b",
        "a;b",
        "$(id)",
        "`id`",
        "a\nb",
        "a\n",
        "a/b",
        "a'b",
        "me@",
        "@a",
        "-l@a",
        "me@-a",
        "a@b@c",
        "[a",
        "a]",
        "netns:",
        "netns:-a",
        "netns:..",
        "netns:a/b",
        "netns:a b",
        "ssh://a",
        "ä",
    ],
)
def test_what_names_no_host(text: str) -> None:
    with pytest.raises(ValueError, match=" is not a "):
        parse_host(text)


def test_a_user_is_no_option() -> None:
    with pytest.raises(ValueError, match="'-oX=1' is not a user's name"):
        parse_host("dtn", user="-oX=1")


@given(st.text("aZ09._-:%@[]/; \n$\\'é", max_size=12))
def test_any_text_is_a_harmless_word_or_an_error(text: str) -> None:
    try:
        address = parse_host(text)
    except ValueError:
        return
    assert not str(address).startswith("-")
    assert not address.host.startswith("-")
    assert all(
        character.isascii() and (character.isalnum() or character in "._-:%@")
        for character in str(address)
    )
