"""The plain data that passes from box to box: paths, traffic and runs. No behaviour but derived quantities."""

from ccmix.model.emulated import ETHERNET_HEADER_BYTES, Buffer, Topology
from ccmix.model.netem import Loss, Netem, NetemPlace
from ccmix.model.real import Capture, Commands, Destination, HostPath, ModuleParameter
from ccmix.model.run import Run, condition_name
from ccmix.model.traffic import Group, RttProbe, Traffic

__all__ = [
    "ETHERNET_HEADER_BYTES",
    "Buffer",
    "Capture",
    "Commands",
    "Destination",
    "Group",
    "HostPath",
    "Loss",
    "ModuleParameter",
    "Netem",
    "NetemPlace",
    "RttProbe",
    "Run",
    "Topology",
    "Traffic",
    "condition_name",
]
