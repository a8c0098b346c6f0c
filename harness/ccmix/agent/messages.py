"""Declares the JSON messages between an agent on a host and its controller, the user's ccmix.

docs/development.md has a table of them.
"""

from __future__ import annotations

from typing import TypedDict

LONGEST_MESSAGE = (
    1_000_000  # bytes of the agent's messages; the controller refuses longer ones (hosts/caps.py)
)
MOST_RECEIVED = 2**29  # bytes of the controller's messages, which have whole files
BEATS_IN_SILENCE = 6  # of each side, in the time after which the other side treats it as lost


class HostOwner(TypedDict):
    """Describes the controller that is using a host, for the error of other controllers that want
    it.
    """

    campaign: str
    user: str
    host: str
    pid: int
    since: str


class ControllerMessage(TypedDict, total=False):
    """Holds a message of the controller: the first one (owner, token, silence_s, onlooker), or an
    operation `op` with its fields.
    """

    owner: HostOwner
    token: str
    silence_s: float
    onlooker: bool
    op: str
    call: int
    id: int
    argv: list[str]
    stdin: str
    privileged: bool
    what: str
    undo: list[str]
    number: int


class HostDescription(TypedDict):
    """Describes the agent and its host."""

    pid: int
    uid: int
    hostname: str
    boot_id: str
    python: str
    kernel: str
    folder: str
    state: str


class AgentHello(HostDescription, total=False):
    """Holds the agent's first report, about itself and its host. `restored` has the changes that
    dead processes left, which it has undone, each with the reason if that failed. An onlooker
    undoes nothing, and sends them as `left`.
    """

    restored: list[tuple[str, str | None]]
    left: list[str]


class AgentReply(TypedDict, total=False):
    """Holds the agent's answer to an operation, whose number is `reply`. `tcp` and `udp`
    are ports.
    """

    reply: int
    error: str
    wall_s: float
    number: int
    tcp: list[int]
    udp: list[int]
    commands: list[str]


class CommandMessage(TypedDict, total=False):
    """Holds the agent's report about a command, whose number is `id`. `left` has the pids of
    processes that could not be ended.
    """

    id: int
    stdout: str
    stderr: str
    failed: str
    exit: int
    gone: bool
    left: list[int]


class AgentMessage(AgentReply, total=False):
    """Holds any other message of the agent. `left` is the last one: the changes that were not
    undone, each with the reason.
    """

    waits: str
    hello: AgentHello
    refused: str
    beat: bool
    left: list[tuple[str, str | None]]
