"""Declares the messages of the agent's protocol, which are JSON objects; docs/development.md has a
table of them.
"""

from __future__ import annotations

from typing import TypedDict

LONGEST_MESSAGE = (
    1_000_000  # bytes of the agent's messages; the controller refuses longer ones (hosts/caps.py)
)
MOST_RECEIVED = 2**29  # bytes of the controller's messages, which have whole files
BEATS_IN_SILENCE = 6  # of each side, in the time after which the other side treats it as lost


class HostOwner(TypedDict):
    """Describes the controller that is using a host, for other controllers that want it."""

    campaign: str
    user: str
    host: str
    pid: int
    since: str


class ControllerMessage(TypedDict, total=False):
    """Carries a message of the controller: the first message, or an operation with its fields."""

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


class AgentHello(TypedDict, total=False):
    """Describes an agent and its host. An agent with a journal sends `restored`, an onlooker
    `left`.
    """

    pid: int
    uid: int
    hostname: str
    boot_id: str
    python: str
    kernel: str
    folder: str
    state: str
    restored: list[tuple[str, str | None]]
    left: list[str]


class AgentReply(TypedDict, total=False):
    """Carries the agent's answer to an operation; `tcp` and `udp` are ports."""

    reply: int
    error: str
    wall_s: float
    number: int
    tcp: list[int]
    udp: list[int]
    commands: list[str]


class CommandMessage(TypedDict, total=False):
    """Carries the agent's report about a command; `left` has pids of processes that could not be
    ended.
    """

    id: int
    stdout: str
    stderr: str
    failed: str
    exit: int
    gone: bool
    left: list[int]


class AgentMessage(AgentReply, total=False):
    """Carries the agent's other messages; `left` has changes that were not undone, each with the
    reason.
    """

    waits: str
    hello: AgentHello
    refused: str
    beat: bool
    left: list[list[str]]
