"""Estimates how long a user's command will take, if its text shows that."""

import itertools
import re
import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath

from ccmix.generators.pscheduler.task import duration_s

IPERF3_S = 10.0  # its default
PSCHEDULER_S = 10.0  # that of its throughput test
PSCHEDULER_START_S = 25.0  # from the command to the result of a short test, without its duration
PSCHEDULER_QUEUE_S = 900.0  # until a slot is free on both ends
SLEEP_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_IPERF3_TAKES = frozenset("pfiAcbtnklPwBMSLOFTCX")  # short options with a value
_CONTROL = frozenset(("for", "while", "until", "if", "case", "select", "function", "{", "("))
_WRAPPERS = "chrt env exec ionice ip nice nohup numactl setsid stdbuf sudo taskset time timeout"
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{0,9})?", re.ASCII)


def expected_seconds(command: str) -> float | None:
    """Returns how long a shell line takes; None if its text doesn't show that."""
    total_s, at_once_s = 0.0, 0.0
    for operator, words in _simple_commands(command):
        if words[0] in _CONTROL:
            return None
        if operator != "|":
            total_s, at_once_s = total_s + at_once_s, 0.0
        at_once_s = max(at_once_s, _seconds(words))
    return total_s + at_once_s or None


def may_queue_s(command: str) -> float:
    """Returns how long a command of a shell line may wait before it begins, as pScheduler waits for
    a slot.
    """
    programs = {_program(words)[0] for _, words in _simple_commands(command)}
    return PSCHEDULER_QUEUE_S if "pscheduler" in programs else 0.0


def prints_a_result(command: str) -> bool:
    """Returns whether pScheduler prints a result as JSON in a shell line, and not into a file."""
    for _, words in _simple_commands(command):
        program, arguments = _program(words)
        formats = [
            *itertools.pairwise(arguments),
            *(tuple(word.split("=", 1)) for word in arguments),
        ]
        if (
            program == "pscheduler"
            and ("--format", "json") in formats
            and not set(words) & {">", ">>", ">|"}
        ):
            return True
    return False


def _simple_commands(command: str) -> Iterable[tuple[str, list[str]]]:
    """Yields each command of a shell line with the operator before it."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace_split, lexer.whitespace, lexer.commenters = True, " \t\r", ""
    operator, words = "", list[str]()
    try:
        for word in lexer:
            if word in ("|", "|&", ";", "&&", "||", "&") or set(word) == {"\n"}:
                if words:
                    yield operator, words
                operator, words = word.rstrip("&") if word == "|&" else word, []
            else:
                words.append(word)
    except ValueError:  # a quotation mark is missing: the shell will report it
        return
    if words:
        yield operator, words


def _program(words: list[str]) -> tuple[str, list[str]]:
    """Returns the name and the arguments of the generator; if there is none, those of the first
    word.
    """
    names = [PurePosixPath(word).name for word in words]
    if names[0] in _WRAPPERS.split() or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", words[0]):
        for at, name in enumerate(names):
            if name in _READERS:
                return name, words[at + 1 :]
    return names[0], words[1:]


def _seconds(words: list[str]) -> float:
    program, arguments = _program(words)
    expected_s = _READERS[program](arguments) if program in _READERS else 0.0
    if program in _READERS and "timeout" in (before := words[: len(words) - len(arguments) - 1]):
        limit_s = next((seconds for word in before if (seconds := _sleep([word]))), 0.0)
        return min(expected_s, limit_s) if limit_s else expected_s
    return expected_s


def _iperf3_options(arguments: list[str]) -> dict[str, str]:
    """Returns options by letter; leaves out long options that don't matter here."""
    letters = {
        "time": "t",
        "omit": "O",
        "bytes": "n",
        "blockcount": "k",
        "server": "s",
        "client": "c",
    }
    options: dict[str, str] = {}
    rest = iter(arguments)
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name in letters:
                options[letters[name]] = value if equals or name == "server" else next(rest, "")
        elif word.startswith("-"):
            for at, letter in enumerate(word[1:], start=2):
                takes = letter in _IPERF3_TAKES
                options[letter] = (word[at:] or next(rest, "")) if takes else ""
                if takes:
                    break
    return options


def _number(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else 0.0


def _iperf3(arguments: list[str]) -> float:
    options = _iperf3_options(arguments)
    if "s" in options or "n" in options or "k" in options:
        return 0.0
    seconds = _number(options["t"]) if "t" in options else IPERF3_S
    return seconds + _number(options.get("O", "")) if seconds else 0.0


def _pscheduler(arguments: list[str]) -> float:
    if "task" not in arguments[:1]:
        return 0.0
    text = ""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word in ("--duration", "-t"):
            text = following
        elif word.startswith("--duration="):
            text = word.partition("=")[2]
    try:
        seconds = duration_s(text) if text else PSCHEDULER_S
    except ValueError:
        return 0.0
    return seconds + PSCHEDULER_START_S if seconds else 0.0


def _sleep(arguments: list[str]) -> float:
    total_s = 0.0
    for word in arguments:
        unit = word[-1:] if word[-1:] in SLEEP_S else ""
        total_s += _number(word.removesuffix(unit)) * SLEEP_S[unit]
    return total_s


_READERS = {"iperf3": _iperf3, "pscheduler": _pscheduler, "sleep": _sleep}
