"""Damages messages of the agent's protocol, and replaces `ssh` to a host whose agent sends damaged
messages.

fuzzed_messages.py SEED [SSH ARGUMENT...]
"""

import base64
import json
import random
import re
import sys
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**30,
    1.5,
    "",
    "x",
    "\0",
    "é",
    "a" * 5000,
    [],
    [[]],
    {},
    {"a": {}},
    [["what", None]],
    [1, 2],
    ["true"],
    ["sh", "-c", "true"],
    "AAAA",
)
LINES = (
    b"\n",
    b"[]\n",
    b"null\n",
    b"5\n",
    b'"x"\n',
    b"{\n",
    b"\xff\xfe\n",
    b"\0\n",
    b"NaN\n",
    b"[" * 5000 + b"\n",
    b'{"a":' * 2000 + b"\n",
    b'{"id": 1e999}\n',
    b"x" * 3000 + b"\n",
)
HELLO: Message = {
    "hello": {
        "pid": 1,
        "uid": 0,
        "hostname": "h",
        "boot_id": "b",
        "python": "3.9",
        "kernel": "6",
        "folder": "/tmp",
        "state": "/",
        "restored": [["a change", None]],
    }
}


def damaged(message: Message, dice: random.Random) -> bytes:
    """Returns the lines of a message, of which one in some is damaged in its structure
    or its text.
    """
    line = json.dumps(message).encode() + b"\n"
    kind = dice.randrange(24)
    if kind < 5:
        at = dice.randrange(len(line))
        flipped = line[:at] + bytes([dice.randrange(256)]) + line[at + 1 :]
        return (b"", line * 2, line + dice.choice(LINES), flipped, line[:at] + b"\n")[kind]
    changed = json.loads(line)
    if kind < 8:
        place = changed["hello"] if "hello" in changed and dice.random() < 0.8 else changed
        place[dice.choice([*place, "id", "op", "left", "reply"])] = dice.choice(VALUES)
    elif kind == 8:
        del changed[dice.choice(list(changed))]
    return json.dumps(changed).encode() + b"\n"


def answers(request: Message) -> Iterator[Message]:
    """Yields what an agent may answer."""
    match request.get("op"):
        case "start":
            number = request["id"]
            yield {"id": number, "stdout": base64.b64encode(b"1\n").decode()}
            yield {"id": number, "stderr": base64.b64encode(b"word\n").decode()}
            yield {"id": number, "exit": 0}
            yield {"id": number, "gone": True, "left": []}
        case "listening":
            yield {"reply": request["call"], "tcp": [1], "udp": []}
        case "commands":
            yield {"reply": request["call"], "commands": ["a b"]}
        case "clock":
            yield {"reply": request["call"], "wall_s": 1e9}
        case "about_to":
            yield {"reply": request["call"], "number": 0}
        case "leave":
            yield {"left": []}
        case _ if "call" in request:
            yield {"reply": request["call"]}


def main() -> None:
    """Speaks as an agent."""
    dice = random.Random(int(sys.argv[1]))
    sys.stdin.buffer.read(int(re.findall(r"read\((\d+)\)", sys.argv[-1])[0]))
    sys.stdin.buffer.readline()
    sys.stdout.buffer.write(damaged(HELLO, dice))
    sys.stdout.buffer.flush()
    for line in sys.stdin.buffer:
        request: Message = json.loads(line)
        for answer in answers(request):
            sys.stdout.buffer.write(damaged(answer, dice))
            sys.stdout.buffer.flush()
        if request.get("op") == "leave":
            return


if __name__ == "__main__":
    main()
