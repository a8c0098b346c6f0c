"""Reads a YAML file of named profiles: the settings of netem on a network device of src.

    profiles:
      WAN:
        interface: eth1
        latency: 80ms
        loss: 0.001%
        limit: 10000
        rate: 1gbit

Only texts and mappings of YAML are used, so a file never creates an object.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ccmix.config.host_values import DELAY, NETEM_LOSS, PACKETS, read_device
from ccmix.config.ini import read_text
from ccmix.config.problems import ConfigError, Problem, about, nearest, quoted
from ccmix.model import Netem
from ccmix.units import parse_rate

MOST_BYTES = 100_000  # PyYAML reads that in a second or two
READERS: Mapping[str, Callable[[str], Any]] = {
    "interface": read_device,
    "latency": DELAY.read,
    "loss": NETEM_LOSS.read,
    "limit": PACKETS.read,
    "rate": parse_rate,
}


@dataclass(frozen=True)
class Profile:
    """Holds the settings of netem (delay, loss, rate) for the network device `device` of src."""

    device: str
    netem: Netem


def read_profiles(path: Path) -> dict[str, Profile]:
    """Returns the profiles of a file by name. Raises ConfigError with all mistakes of the file."""
    text = read_text(path, MOST_BYTES, regular=True)
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        mistake = getattr(error, "problem", None) or "has a character that YAML doesn't allow"
        line = mark.line + 1 if mark else None
        raise ConfigError([Problem(path, f"is not YAML: {mistake}", line)]) from error
    except RecursionError as error:
        raise ConfigError([Problem(path, "is not a file of profiles: too deep")]) from error
    reader = _ProfileReader(path)
    profiles = reader.profiles(root)
    if reader.problems:
        raise ConfigError(reader.problems)
    return profiles


class _Loader(yaml.BaseLoader):
    """Reads YAML without aliases (*name), because each repeats all that its anchor has: a few lines
    could grow to gigabytes.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Refuses an alias with its line. PyYAML calls this for each value of the file."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases (*) are not supported: write the value out", problem_mark=mark
            )
        return super().compose_node(parent, index)


class _ProfileReader:
    """Turns the nodes of a YAML file into profiles, and collects all problems with their lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.problems: list[Problem] = []

    def profiles(self, root: yaml.Node | None) -> dict[str, Profile]:
        """Returns the profiles below the key 'profiles' of the file. `root` is the file's top node;
        None if the file is empty.
        """
        top = self._mapping(root, "the file", "profiles: and below it the profiles")
        for name, (key, _) in top.items():
            if name != "profiles":
                self._problem(key, f"{quoted(name)} is an unknown key; the only key is profiles")
        if "profiles" not in top:
            if not self.problems:
                self._problem(
                    root, "has no profiles: write profiles: and below it NAME: and its settings"
                )
            return {}
        profiles = {}
        for name, (key, value) in self._mapping(
            top["profiles"][1], "profiles", "NAME: and its settings"
        ).items():
            if profile := self._profile(name, key, value):
                profiles[name] = profile
        return profiles

    def _profile(self, name: str, name_node: yaml.Node, node: yaml.Node) -> Profile | None:
        """Returns the profile in a mapping of settings, None if one is wrong. `name_node` is the
        YAML node of its name, for messages.
        """
        values: dict[str, Any] = {}
        problems_before = len(self.problems)
        for setting, (key_node, value) in self._mapping(
            node, f"profile {quoted(name)}", "interface: eth1"
        ).items():
            if setting not in READERS:
                self._problem(
                    key_node, f"{quoted(setting)} is an unknown key" + nearest(setting, READERS)
                )
            elif not isinstance(value, yaml.ScalarNode):
                self._problem(value, f"{setting} is a list or mapping: write one value")
            elif value.value:
                try:
                    values[setting] = READERS[setting](value.value)
                except ValueError as error:
                    self._problem(value, f"{setting}: {about(value.value, error)}")
        if "interface" not in values and len(self.problems) == problems_before:
            self._problem(
                name_node,
                f"profile {quoted(name)} has no interface: name the device on which it acts",
            )
        if len(self.problems) > problems_before:
            return None
        netem = Netem(
            values.get("latency", 0.0), values.get("loss"), values.get("limit"), values.get("rate")
        )
        return Profile(values["interface"], netem)

    def _problem(self, node: yaml.Node | None, message: str) -> None:
        """Adds a mistake with the line of the YAML node; without a line if the node is None."""
        line = node.start_mark.line + 1 if node else None
        self.problems.append(Problem(self._path, message, line))

    def _mapping(
        self, node: yaml.Node | None, described_as: str, example: str
    ) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Returns the entries of a YAML mapping by key, each as the node of the key (which has the
        line) and the node of the value.

        Adds a problem if the node is not a mapping or repeats a key. In its message, `described_as`
        names the node, such as 'profiles', and `example` shows what to write.
        """
        values: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        if not isinstance(node, yaml.MappingNode):
            self._problem(node, f"{described_as} is not a mapping: write {example}")
            return values
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._problem(key, f"a key of {described_as} is not text")
            elif key.value in values:
                self._problem(
                    key, f"{quoted(key.value)} is given twice in {described_as}: remove one"
                )
            else:
                values[key.value] = (key, value)
        return values
