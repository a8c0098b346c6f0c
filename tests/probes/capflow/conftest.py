"""Provides ccmix-capflow: CCMIX_CAPFLOW names the binary; without it,
probes/capflow/build makes it.
"""

import os
import subprocess

import pytest

from probes.capflow.tool import Capflow
from support.commands import REPOSITORY


@pytest.fixture(scope="session")
def capflow() -> Capflow:
    build = REPOSITORY / "probes" / "capflow" / "build"
    named = os.environ.get("CCMIX_CAPFLOW")
    return Capflow(
        named
        or subprocess.run([build], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    )
