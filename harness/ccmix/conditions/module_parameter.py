"""A parameter of a kernel module, such as one of a CCA, set for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from ccmix.hosts import CommandError, Host
from ccmix.model import ModuleParameter

FOLDER = "/sys/module"


@contextmanager
def changed_parameter(host: Host, parameter: ModuleParameter) -> Iterator[None]:
    """Sets the parameter, or one element of it, and puts it back afterwards. Raises CommandError."""
    file, former = f"{FOLDER}/{parameter.path}", read_parameter(host, parameter)
    try:
        value = parameter.written(former)
    except ValueError as error:
        raise CommandError(host.name, ["write", file], str(error)) from None
    with host.changed(f"module parameter {parameter.path}", _write(file, value), _write(file, former)):
        if (now := read_parameter(host, parameter)) != value:
            raise CommandError(host.name, _write(file, value), f"{file} is {now} after {value} was written")
        yield


def read_parameter(host: Host, parameter: ModuleParameter) -> str:
    """Returns the parameter as the kernel has it, all elements of a vector. Raises CommandError."""
    return host.read(f"{FOLDER}/{parameter.path}").strip()


def _write(file: str, value: str) -> list[str]:
    """Returns a command; value and file are arguments, no part of the shell's line."""
    return ["sh", "-c", 'printf "%s\\n" "$1" > "$2"', "sh", value, file]
