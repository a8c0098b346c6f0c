"""Declares the messages of the agent's protocol, JSON objects; docs/development.md has the table of them."""

from __future__ import annotations

from typing import TypedDict


class HostOwner(TypedDict):
    """Describes the controller that has a host, for others who want it."""

    campaign: str
    user: str
    host: str
    pid: int
    since: str


class ControllerMessage(TypedDict, total=False):
    """Carries what the controller sends: the first message, or an operation with its fields."""

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
    """Describes an agent and its host; `restored` is of an agent with a journal, `left` of an onlooker."""

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
    """Carries what the agent reports about a command; `left` has pids that could not be ended."""

    id: int
    stdout: str
    stderr: str
    failed: str
    exit: int
    gone: bool
    left: list[int]


class AgentMessage(AgentReply, total=False):
    """Carries what else the agent sends; `left` has changes that were not undone, each with the reason."""

    waits: str
    hello: AgentHello
    refused: str
    beat: bool
    left: list[list[str]]
