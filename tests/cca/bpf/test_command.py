"""The command line of ccmix-cca, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ccmix.lab.spec import PARAMETERS
from support.cca_bpf import CCAS, Loader, build
from support.commands import REPOSITORY, run_program

UNIT = REPOSITORY / "packaging/systemd/ccmix-cca@.service"
NOBODY = ("setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
CAPABILITY_SETS = ("--bounding-set", "--inh-caps", "--ambient-caps")
FUZZ_S = 60
BTF, JIT = "/sys/kernel/btf", "/proc/sys/net/core/bpf_jit_enable"
# The header of BTF (linux/btf.h), no types, and the empty string
NO_TYPES = struct.pack("<HBB5I", 0xEB9F, 1, 0, 24, 0, 0, 0, 1) + b"\0"
IN_OWN_MOUNTS = ("unshare", "--mount", "sh", "-ec")


@pytest.fixture
def of_nobody(program: Path, loader: Loader) -> Iterator[Loader]:
    """Gives a copy that every user can run. `loader` is only for root, which becomes other users
    here.
    """
    with TemporaryDirectory(prefix="ccmix-") as folder:
        Path(folder).chmod(0o755)
        yield Loader(Path(shutil.copy(program, folder)))


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("", "give a command"),
        ("lode bbr3", "lode is not a command"),
        ("load", "give bbr2 or bbr3"),
        ("load bbr", "bbr is not known"),
        ("load ../bbr3", "../bbr3 is not known"),
        ("load bbr3 --json", "--json is not an option of load"),
        ("unload bbr3 bbr2", "bbr2 is one word too many"),
        ("list bbr3", "bbr3 is one word too many"),
        ("set bbr3", "give a parameter"),
        ("set bbr3 loss_thresh", "give a parameter and its value"),
        ("set bbr3 loss_thresh=", "loss_thresh=: give a whole number from 1 to 255"),
        ("set bbr3 loss_thresh=-1", "give a whole number"),
        ("set bbr3 loss_thresh=256", "give a whole number from 1 to 255"),
        ("set bbr3 loss_thresh=4294967301", "give a whole number"),
        ("set bbr3 loss_thresh=99999999999999999999999", "give a whole number"),
        ("set bbr3 loss_thresh=5x", "give a whole number"),
        ("set bbr3 draft=1", "draft is not a parameter of bbr3"),
        ("set bbr2 version=3", "version is not a parameter of bbr2"),
        ("load bbr3 pacing_gain=320,230,256", "give four numbers from 16 to 2048"),
        ("load bbr3 pacing_gain=320,230,256,256,", "give four numbers"),
        ("load bbr3 pacing_gain=320,230,256,4096", "give four numbers"),
        ("load bbr3 =5", " is not a parameter"),
    ],
)
def test_wrong_words_are_refused(program: Path, words: str, what: str) -> None:
    done = Loader(program).run(*words.split())
    assert done.returncode == 2
    assert what in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_help_and_version(program: Path) -> None:
    loader = Loader(program)
    assert "ccmix-cca COMMAND" in loader.must("--help")
    assert loader.must("--version").startswith("ccmix-cca, build ")


@pytest.mark.skipif(
    not shutil.which("setpriv"), reason="setpriv is not installed: apt-get install util-linux"
)
def test_an_ordinary_user_is_told_what_is_missing(of_nobody: Loader) -> None:
    for words in (("load", "bbr3"), ("list",), ("status",), ("unload", "bbr3")):
        refused = of_nobody.run(*words, prefix=NOBODY)
        assert refused.returncode == 1
        assert "run this as root" in refused.stderr
    checked = of_nobody.run("check", "--json", prefix=NOBODY)
    assert checked.returncode == 1
    assert {need["need"]: need["ok"] for need in json.loads(checked.stdout)}["rights"] is False


@pytest.mark.parametrize(
    ("prefix", "need", "what"),
    [
        (("setarch", "--uname-2.6"), "kernel", "Linux 2.6.* is too old: 6.1 or newer is needed"),
        (
            (*IN_OWN_MOUNTS, f'mount -t tmpfs none {BTF}; exec "$@"', "sh"),
            "BTF",
            f"{BTF}/vmlinux is missing",
        ),
        (
            (*IN_OWN_MOUNTS, f'mount --bind types {BTF}/vmlinux; exec "$@"', "sh"),
            "BTF",
            "the kernel has no congestion control by BPF: it needs CONFIG_BPF_SYSCALL and "
            "CONFIG_BPF_JIT",
        ),
        (
            (*IN_OWN_MOUNTS, f'mount --bind off {JIT}; exec "$@"', "sh"),
            "JIT",
            "sysctl net.core.bpf_jit_enable=1",
        ),
        (
            ("setpriv", "--bounding-set=-net_admin"),
            "rights",
            "CAP_NET_ADMIN is missing: run this as root",
        ),
        (
            ("setpriv", "--bounding-set=-sys_admin"),
            "rights",
            "CAP_SYS_ADMIN is missing: run this as root",
        ),
    ],
    ids=["too old", "no BTF", "no struct_ops", "no JIT", "no CAP_NET_ADMIN", "no CAP_SYS_ADMIN"],
)
def test_what_a_host_lacks_is_named(
    loader: Loader,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefix: tuple[str, ...],
    need: str,
    what: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("types").write_bytes(NO_TYPES)
    Path("off").write_text("0\n")
    checked = loader.run("check", "--json", prefix=prefix)
    assert checked.returncode == 1
    assert {row["need"] for row in json.loads(checked.stdout) if not row["ok"]} == {need}
    for words in (("check",), ("load", "bbr3"), ("list",), ("unload", "bbr3", "--missing-ok")):
        refused = loader.run(*words, prefix=prefix)
        assert refused.returncode == 1
        assert re.search(
            f"{need}\\b.*{what}", refused.stdout if words == ("check",) else refused.stderr
        )
    assert loader.list() == {}


@pytest.mark.skipif(
    not shutil.which("setpriv"), reason="setpriv is not installed: apt-get install util-linux"
)
@pytest.mark.usefixtures("lists_of_sockets")
def test_the_capabilities_of_the_unit_are_enough(of_nobody: Loader) -> None:
    """As systemd starts the unit: another user, with only these capabilities."""
    both = re.findall(
        r"^(?:AmbientCapabilities|CapabilityBoundingSet)=(.*)$", UNIT.read_text(), re.MULTILINE
    )
    assert len(both) == 2
    [capabilities] = set(both)
    only = ",".join(
        ["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in capabilities.split())]
    )
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")
    prefix = (*user, *(f"{option}={only}" for option in CAPABILITY_SETS))
    for words in (
        "check",
        "load bbr3 --keep",
        "load bbr3 --keep",
        "list",
        "status",
        "unload bbr3 --missing-ok",
    ):
        done = of_nobody.run(*words.split(), prefix=prefix)
        assert (done.returncode, done.stderr) == (0, "")
    assert of_nobody.list() == {}


@pytest.mark.usefixtures("lists_of_sockets")
def test_loading_twice(loader: Loader) -> None:
    loader.must("load", "bbr3", "loss_thresh=7")
    number = loader.list()["bbr3"]["id"]
    again = loader.run("load", "bbr3", "loss_thresh=7")
    assert (again.returncode, "is loaded already" in again.stderr) == (1, True)
    loader.must("load", "bbr3", "loss_thresh=7", "--keep")
    other = loader.run("load", "bbr3", "--keep")
    assert (other.returncode, "other parameters" in other.stderr) == (1, True)
    assert loader.list()["bbr3"]["id"] == number
    loader.must("unload", "bbr3")
    assert loader.run("unload", "bbr3").returncode == 1
    loader.must("unload", "bbr3", "--missing-ok")
    assert loader.run("set", "bbr3", "loss_thresh=5").returncode == 1
    assert loader.run("status", "bbr3").returncode == 1
    assert (loader.list(), loader.status()) == ({}, [])


def test_parameters(loader: Loader) -> None:
    loader.must(
        "load",
        "bbr2",
        "draft=1",
        "loss_thresh=0x0a",
        "pacing_gain=300,200,256,256",
        "max_sockets=4294967295",
    )
    found = loader.list()["bbr2"]["parameters"]
    assert found["startup_pacing_gain"] == "709"  # the draft's
    assert (found["loss_thresh"], found["pacing_gain"]) == ("10", "300,200,256,256")
    assert (found["draft"], found["max_sockets"]) == ("1", "4294967295")
    wrong = loader.run("set", "bbr2", "beta=100", "loss_thresh=0")
    assert wrong.returncode == 2
    assert loader.list()["bbr2"]["parameters"] == found  # all or nothing
    loader.must("set", "bbr2", "draft=0")
    assert loader.list()["bbr2"]["parameters"]["startup_pacing_gain"] == "739"
    assert loader.list()["bbr2"]["parameters"]["loss_thresh"] != "10"


def test_draft_comes_before_what_is_set_beside_it(loader: Loader) -> None:
    for command, draft, gain in (("load", "1", "709"), ("set", "0", "739")):
        loader.must(command, "bbr2", "beta=100", f"draft={draft}")
        found = loader.list()["bbr2"]["parameters"]
        assert (found["beta"], found["draft"], found["startup_pacing_gain"]) == ("100", draft, gain)


def test_every_parameter_of_the_core_is_shown_and_can_be_set(loader: Loader) -> None:
    for cca in CCAS:
        loader.must("load", cca)
        shown = loader.list()[cca]["parameters"]
        assert set(shown) == {
            name for name, known in PARAMETERS[f"tcp_{cca}"].items() if not known.read_only
        }
        loader.must(
            "set", cca, *(f"{name}={value}" for name, value in shown.items() if name != "draft")
        )
        assert loader.list()[cca]["parameters"] == shown


@pytest.mark.long
def test_no_words_harm_the_command_line(tmp_path: Path) -> None:
    try:
        fuzzer = build("--fuzz")
    except subprocess.CalledProcessError:
        pytest.skip("the fuzzer can't be built: run 'tools/setup --fuzz'")
    words = (
        "load\nbbr3\nloss_thresh=5\n--keep",
        "set\nbbr2\npacing_gain=1,2,3,4\ndraft=1",
        "status\nbbr3\n--json",
    )
    for number, line in enumerate(words):
        tmp_path.joinpath(str(number)).write_text(line)
    argv = [fuzzer, f"-max_total_time={FUZZ_S}", "-max_len=400", "-print_final_stats=1", tmp_path]
    done = run_program(argv)
    assert done.returncode == 0, done.stderr[-2000:]
