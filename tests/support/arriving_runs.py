"""Finished runs, packed as a worker of a cluster packs them."""

import io
from dataclasses import replace
from pathlib import Path

from ccmix.archive import RunFolder
from ccmix.archive.packed import pack_folder
from ccmix.model import Facts, GuestRoot, LabKernel, Run
from support.finished_runs import FACTS, finished_run


def made_with(kernel: str, userland: str) -> Facts:
    """Returns facts with these hashes, and one of iperf3."""
    return replace(
        FACTS,
        lab_kernel=LabKernel("stock", kernel, "7.2"),
        guest_root=GuestRoot(userland, True),
        lab_programs={"iperf3": "i" * 64},
    )


def packed(folder: Path, run: Run, facts: Facts) -> bytes:
    """Returns the files of a finished run, which are made below the folder."""
    made = RunFolder(folder)
    (made.begin() / "logs").mkdir()
    (made.partial / "logs" / "guest.log").write_text("boots\n")
    made.finish(finished_run(run, facts=facts))
    out = io.BytesIO()
    pack_folder(made.path, out)
    return out.getvalue()
