"""Estimates from its text how long a user's shell command takes, to plan a campaign's time."""

import re
import shlex
from collections.abc import Iterable, Sequence
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
    """Returns how many seconds a shell line such as 'iperf3 -c host -t 30' takes, according to its
    words; None if the words don't show it. The programs of a pipeline run at the same time, and
    other commands one after the other.
    """
    total_s, pipeline_s = 0.0, 0.0
    for operator, words in _simple_commands(command):
        if words[0] in _CONTROL:
            return None
        if operator != "|":
            total_s, pipeline_s = total_s + pipeline_s, 0.0
        pipeline_s = max(pipeline_s, _expected_s(words))
    return total_s + pipeline_s or None


def other_duration_s(command: str, duration_s: float) -> float | None:
    """Returns how long the only test in a shell line sends according to its words, if that is not
    `duration_s`, with or without its omitted time or its start. None if they agree, or if the words
    don't show it.
    """
    commands = [(words, *_program(words)) for _, words in _simple_commands(command)]
    tests = [each for each in commands if each[1] in ("iperf3", "pscheduler")]
    if len(tests) != 1:
        return None
    [(words, program, arguments)] = tests
    total_s = _expected_s(words)
    if not total_s:
        return None
    omitted_s = _number_or_0(_iperf3_options(arguments).get("O", ""))
    sent_s = total_s - (PSCHEDULER_START_S if program == "pscheduler" else omitted_s)
    return None if sent_s <= duration_s <= total_s else sent_s


def may_queue_s(command: str) -> float:
    """Returns how many seconds a shell line may wait before its traffic begins. pScheduler waits
    for a free time slot on both hosts (up to 900 s), and other programs don't wait.
    """
    programs = {_program(words)[0] for _, words in _simple_commands(command)}
    return PSCHEDULER_QUEUE_S if "pscheduler" in programs else 0.0


def prints_a_result(command: str) -> bool:
    """Returns whether a shell line has a `pscheduler` command that prints its result as JSON to the
    standard output, and not into a file. If such a line has printed nothing, the test had no
    result.
    """
    return any(
        _program(words)[0] == "pscheduler"
        and option_value(words, "--format") == "json"
        and not set(words) & {">", ">>", ">|"}
        for _, words in _simple_commands(command)
    )


def option_value(words: Sequence[str], *names: str) -> str | None:
    """Returns the value of an option with one of these names, '--key VALUE' or '--key=VALUE'; None
    without the option.
    """
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else following
    return None


def _simple_commands(command: str) -> Iterable[tuple[str, list[str]]]:
    """Yields each command of a shell line, split into words, with the operator before it: ('',
    ['sleep', '1']), ('|', ['cat']).
    """
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
    """Returns the name and the arguments of the program in a command whose duration is known
    (iperf3, pscheduler or sleep). Wrappers before it, such as sudo, are skipped. If there is no
    such program, the first word and the words after it are returned.
    """
    names = [PurePosixPath(word).name for word in words]
    if names[0] in _WRAPPERS.split() or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", words[0]):
        for position, name in enumerate(names):
            if name in _READERS:
                return name, words[position + 1 :]
    return names[0], words[1:]


def _expected_s(words: list[str]) -> float:
    """Returns how many seconds a command takes; 0 if this is not known. If a `timeout` runs the
    command, the result is at most the timeout's limit.
    """
    program, arguments = _program(words)
    if program not in _READERS:
        return 0.0
    expected_s = _READERS[program](arguments)
    wrapper_words = words[: len(words) - len(arguments) - 1]
    if "timeout" in wrapper_words:
        limit_s = next((seconds for word in wrapper_words if (seconds := _sleep_s([word]))), 0.0)
        return min(expected_s, limit_s) if limit_s else expected_s
    return expected_s


def _iperf3_options(arguments: list[str]) -> dict[str, str]:
    """Returns the options of an iperf3 command, by their short letters: {'t': '30'} for '-t 30' and
    '--time=30'. Long options that don't affect the duration are left out.
    """
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
            for value_begin, letter in enumerate(word[1:], start=2):
                has_value = letter in _IPERF3_TAKES
                options[letter] = (word[value_begin:] or next(rest, "")) if has_value else ""
                if has_value:
                    break
    return options


def _number_or_0(text: str) -> float:
    """Reads a number; returns 0 if the text is not a number."""
    return float(text) if _NUMBER.fullmatch(text) else 0.0


def _iperf3_s(arguments: list[str]) -> float:
    """Returns how many seconds an iperf3 client takes. 0 means unknown: for a server, and for a
    client that sends a number of bytes instead of sending for a time.
    """
    options = _iperf3_options(arguments)
    if "s" in options or "n" in options or "k" in options:
        return 0.0
    seconds = _number_or_0(options["t"]) if "t" in options else IPERF3_S
    return seconds + _number_or_0(options.get("O", "")) if seconds else 0.0


def _pscheduler_s(arguments: list[str]) -> float:
    """Returns how many seconds `pscheduler task` takes: the duration of its test, 10 s by default,
    plus 25 s until it prints the result. 0 means unknown.
    """
    if "task" not in arguments[:1]:
        return 0.0
    text = option_value(arguments, "--duration", "-t")
    try:
        seconds = duration_s(text) if text else PSCHEDULER_S
    except ValueError:
        return 0.0
    return seconds + PSCHEDULER_START_S if seconds else 0.0


def _sleep_s(arguments: list[str]) -> float:
    """Returns how long `sleep` takes: the sum of its arguments, such as '1m 30s'."""
    total_s = 0.0
    for word in arguments:
        unit = word[-1:] if word[-1:] in SLEEP_S else ""
        total_s += _number_or_0(word.removesuffix(unit)) * SLEEP_S[unit]
    return total_s


_READERS = {"iperf3": _iperf3_s, "pscheduler": _pscheduler_s, "sleep": _sleep_s}
