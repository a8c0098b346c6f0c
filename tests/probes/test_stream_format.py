"""Compares the reader's table of structs with probes/sockmon/format.h, which the probe is
compiled with.
"""

import re

import pytest

from ccmix.probes.stream import format as form
from ccmix.terms import BBRS
from support.commands import REPOSITORY

HEADER = (REPOSITORY / "probes" / "sockmon" / "format.h").read_text()
STRUCTS = {
    "stream_header": form.StreamHeader,
    "record": form.Record,
    "sample": form.SampleHeader,
    "id_socket": form.SocketIdentity,
    "id_queue": form.QueueIdentity,
    "id_counter": form.CounterIdentity,
    "id_process": form.ProcessIdentity,
    "row_socket": form.SocketRow,
    "row_bbr": form.BbrRow,
    "row_bbr_info": form.BbrInfoRow,
    "row_queue": form.QueueRow,
    "row_link": form.LinkRow,
    "row_counter": form.CounterRow,
    "row_cpu": form.CpuRow,
    "row_process": form.ProcessRow,
}
# As the reader takes them: an array of bytes is text or an address ("s") in identities, and numbers
# ("B") in rows.
CODES = {
    "char": "B",
    "uint8_t": "B",
    "uint16_t": "H",
    "uint32_t": "I",
    "int32_t": "i",
    "uint64_t": "Q",
}

_CODE = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)
_DEFINES = dict(re.findall(r"^#define (\w+) (\S+)$", _CODE, re.MULTILINE))


def declared(name: str) -> dict[str, str]:
    """Returns the fields of a struct, with codes of the module struct."""
    match = re.search(rf"struct {name} {{(.*?)}};", _CODE, re.DOTALL)
    assert match
    fields = {}
    for statement in filter(None, map(str.strip, match[1].split(";"))):
        field = re.fullmatch(r"(\w+) (\w+)(?:\[(\w+)\])?", statement)
        assert field, statement
        fields[field[2]] = _DEFINES.get(field[3] or "", field[3] or "") + CODES[field[1]]
    return fields


def test_every_struct_is_mirrored() -> None:
    assert set(re.findall(r"^struct (\w+) {", _CODE, re.MULTILINE)) == set(STRUCTS)


@pytest.mark.parametrize("name", STRUCTS)
def test_a_struct_has_the_same_fields(name: str) -> None:
    mirrored = [
        (field, code.replace("s", "B")) for field, code in form.codes(STRUCTS[name]).items()
    ]
    assert mirrored == list(declared(name).items())


def test_record_types_are_the_same() -> None:
    values = {name: int(value) for name, value in re.findall(r"RECORD_(\w+) = (\d+)", _CODE)}
    assert {member.name: member.value for member in form.RecordType} == values


def test_the_phases_of_bbr_are_the_same() -> None:
    body = re.search(r"enum bbr_phase {(.*?)};", _CODE, re.DOTALL)
    assert body
    assert re.findall(r"BBR_(\w+)", body[1].lower(), re.IGNORECASE) == [*form.BBR_PHASES, "phases"]


def test_the_probe_knows_the_later_versions_of_bbr() -> None:
    listed = re.search(
        r"bbr_ccas\[\] = {(.*?)}", (REPOSITORY / "probes" / "sockmon" / "sockets.c").read_text()
    )
    assert listed
    assert re.findall(r'"(\w+)"', listed[1]) == [cca for cca in BBRS if cca != "bbr"]


def test_constants_are_the_same() -> None:
    assert form.MAGIC.decode() == _DEFINES["STREAM_MAGIC"].strip('"')
    assert int(_DEFINES["STREAM_VERSION"]) == form.VERSION
    assert int(_DEFINES["STREAM_BYTE_ORDER"], 16) == form.BYTE_ORDER
    assert len(form.LINK_COUNTERS) == int(_DEFINES["LINK_COUNTERS"])
    for name in ("HAS_MEMORY", "HAS_VEGAS", "HAS_DCTCP", "HAS_BBR"):
        assert getattr(form, name) == int(_DEFINES[name])
