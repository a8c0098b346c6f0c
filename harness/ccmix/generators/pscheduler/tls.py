"""Decides which certificates to trust: those of an entry's file, else those that this machine trusts; never none."""

import ssl
from pathlib import Path

# OpenSSL's numbers (X509_V_ERR_*, openssl/x509_vfy.h) of certificates whose issuer nobody trusts
_UNTRUSTED = (18, 19, 20, 21)
_EXPIRED, _NOT_YET_VALID = 10, 9


def trusting(ca_file: str | None) -> ssl.SSLContext:
    """Returns a context that trusts the certificates in a PEM file and no others; without one, those that this machine
    trusts.

    The file may have a server's own certificate, self-signed or not. The server's name and dates are checked in any
    case. Raises OSError (ssl.SSLError among them) where the file can't be read, or has no certificate.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # so that a certificate in the file need not be a root's
    return context


def wrong_file(path: Path) -> str | None:
    """Returns what is wrong with a file that is to be trusted; None if nothing is."""
    try:
        trusting(str(path))
    except ssl.SSLError:
        return "has no certificate in PEM form, -----BEGIN CERTIFICATE-----"
    except OSError as error:
        return f"can't be read: {error.strerror}"
    return None


def mistrust(host: str, error: ssl.SSLCertVerificationError, ca_file: str | None) -> str:
    """Returns why the server is not trusted, and what to do."""
    if error.verify_code == _EXPIRED:
        return f"{host}: its certificate has expired: renew it there"
    if error.verify_code == _NOT_YET_VALID:
        return f"{host}: its certificate is not valid yet: look at the clocks of both hosts"
    if error.verify_code not in _UNTRUSTED:
        return f"{host}: its certificate is refused: {error.verify_message}"
    if ca_file:
        return f"{host}: its certificate is not one of {ca_file}, nor issued by one of them: {error.verify_message}"
    return (
        f"{host}: its certificate is signed by nobody that this machine trusts ({error.verify_message}): name the file "
        "of that certificate, or of its issuer's, with tls-ca = FILE"
    )
