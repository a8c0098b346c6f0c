"""The plain data that passes from box to box: paths, traffic and runs. No behaviour but derived quantities."""

from ccmix.model.emulated import ETHERNET_HEADER_BYTES, Buffer, Change, Queue, Sender, Topology
from ccmix.model.netem import Loss, Netem, NetemPlace
from ccmix.model.real import Capture, Commands, Destination, HostPath, ModuleParameter, PschedulerTask
from ccmix.model.run import Run, condition_name
from ccmix.model.traffic import (
    CommandFlows,
    Flows,
    Group,
    HttpFlows,
    Iperf3Flows,
    RttProbe,
    Traffic,
    UdpFlows,
    WorkloadFlows,
)

__all__ = [
    "ETHERNET_HEADER_BYTES",
    "Buffer",
    "Capture",
    "Change",
    "CommandFlows",
    "Commands",
    "Destination",
    "Flows",
    "Group",
    "HostPath",
    "HttpFlows",
    "Iperf3Flows",
    "Loss",
    "ModuleParameter",
    "Netem",
    "NetemPlace",
    "PschedulerTask",
    "Queue",
    "RttProbe",
    "Run",
    "Sender",
    "Topology",
    "Traffic",
    "UdpFlows",
    "WorkloadFlows",
    "condition_name",
]
