"""Reads the URL of an Elasticsearch server from an INI file, an option or the environment."""

from urllib.parse import urlsplit

CREDENTIALS = "CCMIX_INDEX_CREDENTIALS"  # the variable that names the file of credentials
NO_URL = "is not a server's URL: write https://HOST:PORT, such as https://elastic.example.org:9200"


def read_url(text: str) -> str:
    """Checks the URL of a server, and returns it without a slash at its end.

    It must be http or https, without user, password or query. Raises ValueError, whose text never
    contains a password.
    """
    if not text.isprintable() or " " in text:
        raise ValueError("has characters that a URL can't have")
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:  # its message may have the password
        raise ValueError(NO_URL) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(NO_URL)
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            f"has a user or password in it: remove them, and see {CREDENTIALS} in "
            "docs/howto/index.md"
        )
    if parts.query or parts.fragment:
        raise ValueError("has a query or fragment: write https://HOST:PORT")
    return text.rstrip("/")
