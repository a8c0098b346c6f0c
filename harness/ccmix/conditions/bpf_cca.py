"""Loads CCAs as BPF programs into a host's kernel with ccmix-cca, and changes their parameters.

The kernel has one list of CCAs for all of its network namespaces. The source of ccmix-cca is in
cca/bpf.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from ccmix import foreign_json
from ccmix.conditions.sysctl import FOLDER
from ccmix.hosts import CommandError
from ccmix.hosts.errors import CommandFailed, ExitStatusError, HostLost
from ccmix.hosts.host import RealHost
from ccmix.model import BpfCca, HostPath, ModuleParameter
from ccmix.terms import BPF_CCAS

AVAILABLE = "/proc/sys/net/ipv4/tcp_available_congestion_control"
ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
RESETS_OTHERS = "draft"
_IS_READ_ONLY = 9  # an exit status that neither sh nor sudo has
MODULES = {f"tcp_{cca}": cca for cca in BPF_CCAS}

# Prints the folder of root's journals, as an absolute path (agent/journal.py)
_ROOTS_FOLDER = (
    "sh",
    "-c",
    'if test "$(id -u)" = 0; then realpath -m -- "${CCMIX_STATE:-/var/lib/ccmix}"; else echo '
    "/var/lib/ccmix; fi",
)
# Copies the program to a place and runs the copy. Removes the copy if it fails, but not if a signal
# ends it, because the change may have been made by then.
_KEEP_AND_DO = (
    "sh",
    "-c",
    'program=$1 kept=$2; shift 2; install -D -m 700 -- "$program" "$kept" && "$kept" "$@"; '
    'status=$?; test $status -eq 0 || test $status -gt 128 || rm -f -- "$kept"; exit $status',
    "sh",
)
_UNDO_AND_REMOVE = ("sh", "-c", 'kept=$1; shift; "$kept" "$@" && rm -f -- "$kept"', "sh")


@dataclass(frozen=True)
class CcaProgram:
    """Runs ccmix-cca on a host, the program that loads CCAs as BPF programs; `path` is its path
    there.
    """

    host: RealHost
    path: str

    def listed(self) -> dict[str, BpfCca]:
        """Returns the CCAs that the kernel has as BPF programs, by name, with their parameters.
        Raises CommandError.
        """
        argv = [self.path, "list", "--json"]
        output = self.host.run(argv, privileged=True)
        try:
            return {str(row["name"]): _read_row(row) for row in foreign_json.loads(output)}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise CommandError(self.host.name, argv, f"unexpected output: {error!r}") from error

    @contextmanager
    def loaded(self, cca: str, for_users: bool) -> Iterator[None]:
        """Loads a CCA while the context lasts, and unloads it at the end. If the kernel already has
        the CCA, nothing is done.

        By default, only root may choose a new CCA for its sockets. With `for_users`, or if the
        login is not root's, all users are allowed to choose it. Raises CommandError.
        """
        if cca in self.host.read(AVAILABLE).split():
            yield
            return
        load, unload = ["load", cca], ["unload", cca, "--missing-ok"]
        for_users = for_users or not is_root(self.host)
        as_root = partial(self.host.run, privileged=True)
        if for_users:
            check_allowing(self.host.name, as_root)
        with self._change(f"CCA {cca} as a BPF program", load, unload):
            if for_users:
                as_root(allow_users(cca))  # the kernel drops it together with the CCA
            yield

    @contextmanager
    def changed(self, parameter: ModuleParameter, cca: str) -> Iterator[None]:
        """Sets a parameter of a loaded CCA while the context lasts, and puts the former value back
        at the end. Parameters have the same names as in the CCA's kernel module.

        Raises CommandError, also if the parameter does not have the value after it was set.
        """
        former = self._parameters(parameter, cca)
        try:
            value = parameter.written(former[parameter.name])
        except ValueError as error:
            do = _set(cca, {parameter.name: parameter.value})
            raise CommandError(self.host.name, [self.path, *do], str(error)) from None
        do, undo = (
            _set(cca, {parameter.name: value}),
            _set(cca, _taken_back(parameter.name, former)),
        )
        with self._change(f"parameter {parameter.name} of {cca}", do, undo):
            if (now := self.value(parameter, cca)) != value:
                raise CommandError(
                    self.host.name,
                    [self.path, *do],
                    f"{parameter.name} is {now} after {value} was set",
                )
            yield

    @contextmanager
    def _change(self, purpose: str, do: Sequence[str], undo: Sequence[str]) -> Iterator[None]:
        """Runs ccmix-cca with the arguments `do`, and at the end of the context with the arguments
        `undo`. `purpose` describes the change in the journal, from which the agent undoes changes
        if ccmix dies. Raises CommandError.

        Root runs a copy of ccmix-cca. Only root can write the copy, and it still exists if the
        agent is killed and the agent's folder is removed.
        """
        kept = f"{self.host.run(_ROOTS_FOLDER).strip()}/ccmix-cca-{secrets.token_hex(8)}"
        keep_and_do, undo_and_remove = (
            [*_KEEP_AND_DO, self.path, kept, *do],
            [*_UNDO_AND_REMOVE, kept, *undo],
        )
        with ExitStack() as stack:
            try:
                stack.enter_context(
                    self.host.changed(purpose, keep_and_do, undo_and_remove, all_or_nothing=True)
                )
            except CommandFailed as error:  # whose message is about ccmix-cca, not the shell
                raise CommandError(self.host.name, [self.path, *do], error.reason) from error
            yield

    def watching(self) -> list[str]:
        """Returns the words to put before the command of a probe, such as ccmix-sockmon, so that
        the probe can read the inner states of CCAs (cca/bpf/README.md).
        """
        return [self.path, "watch", "--"]

    def value(self, parameter: ModuleParameter, cca: str) -> str:
        """Reads the present value of a parameter of a loaded CCA; all elements if the parameter is
        a vector. Raises CommandError.
        """
        return self._parameters(parameter, cca)[parameter.name]

    def _parameters(self, parameter: ModuleParameter, cca: str) -> dict[str, str]:
        """Returns the values of all parameters of a loaded CCA, by name. Raises CommandError if the
        CCA is not loaded, or if it does not have this parameter.
        """
        state = self.listed().get(cca)
        if state is None:
            raise CommandError(self.host.name, [self.path, "list"], f"{cca} is not loaded")
        if not state.parameters:  # ccmix-cca does not know them
            reason = f"{cca} was loaded by another build of ccmix-cca: unload it and load it again"
            raise CommandError(self.host.name, [self.path, "list"], reason)
        if parameter.name not in state.parameters:
            raise CommandError(
                self.host.name, [self.path, "list"], f"{cca} has no parameter {parameter.name}"
            )
        return state.parameters


def allow_users(cca: str) -> list[str]:
    """Returns a command for root that adds a CCA to the list of CCAs which all users may choose for
    their sockets.
    """
    return ["sh", "-c", 'printf "%s %s\\n" "$(cat "$1")" "$2" >"$1"', "sh", ALLOWED, cca]


def check_allowing(host: str, as_root: Callable[[Sequence[str]], str]) -> None:
    """Raises CommandError if even root can't allow users to choose a CCA on this host: in a
    container, the sysctl with the list of allowed CCAs is read-only. Changes nothing.

    `host` is the name for the message, and `as_root` runs a command there as root and returns its
    output.
    """
    try:
        as_root(["sh", "-c", f'true >>"$1" || exit {_IS_READ_ONLY}', "sh", ALLOWED])
    except ExitStatusError as error:
        if error.status != _IS_READ_ONLY:
            raise
        raise CommandError(
            host,
            (),
            "users without root can't be allowed to choose it from here: "
            "net.ipv4.tcp_allowed_congestion_control can "
            "be written only in the machine's own network namespace, and in no container. Load "
            "it there, by "
            "ccmix cca load --allow-users",
        ) from error


def cca_with(host: RealHost, parameter: ModuleParameter) -> str | None:
    """Finds the CCA of ccmix whose BPF program must be loaded for a host to have a parameter.

    Returns None if the host has a kernel module with this parameter, which needs no BPF program, or
    if ccmix has no CCA for the parameter's module.
    """
    cca = MODULES.get(parameter.module)
    return cca if cca and not _can_read(host, f"{FOLDER}/{parameter.path}") else None


def to_ask_about(host: RealHost, path: HostPath) -> list[str]:
    """Returns the CCAs of a host that may be BPF programs, so that ccmix-cca should be asked about
    them. The kernel has them, but there is no file /proc/net/tcp_CCA, which ccmix's kernel modules
    have.

    Only root may run ccmix-cca. Without a login as root, the result is empty, unless the entry of
    the run changes CCAs, which needs root anyway.
    """
    changes = path.cca_load or (path.module_parameter and path.module_parameter.module in MODULES)
    available = host.read(AVAILABLE).split()
    ccas = [
        cca for cca in BPF_CCAS if cca in available and not _can_read(host, f"/proc/net/tcp_{cca}")
    ]
    return ccas if ccas and (changes or is_root(host)) else []


def _set(cca: str, values: Mapping[str, str]) -> list[str]:
    """Returns the arguments of ccmix-cca that set parameters of a CCA. `values` are by the
    parameters' names.
    """
    return ["set", cca, *(f"{name}={value}" for name, value in values.items())]


def _taken_back(name: str, former: Mapping[str, str]) -> dict[str, str]:
    """Returns the values that undo the change of a parameter, by name and in the order in which to
    set them. `former` has the values of all parameters before the change. All of them are needed
    for the parameter 'draft', because setting it also changes all others.
    """
    return {name: former[name], **(former if name == RESETS_OTHERS else {})}


def is_root(host: RealHost) -> bool:
    """Returns whether ccmix has logged in to the host as root. Raises CommandError."""
    return host.run(["id", "-u"]).strip() == "0"


def _can_read(host: RealHost, path: str) -> bool:
    """Returns whether a file exists on the host and ccmix's login may read it. Raises HostLost."""
    try:
        host.read(path)
    except HostLost:
        raise
    except CommandError:
        return False
    return True


def _read_row(row: Mapping[str, Any]) -> BpfCca:
    """Reads what `ccmix-cca list --json` says about one CCA."""
    parameters = {str(name): str(value) for name, value in row["parameters"].items()}
    return BpfCca(str(row["program"] or ""), parameters)
