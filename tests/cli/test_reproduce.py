"""`ccmix reproduce`: its list, and arguments that it refuses.
tests/papers/test_statements_in_lab.py makes runs.
"""

import re

from ccmix.papers.forms import form
from ccmix.papers.reading import EXPERIMENTS
from support.commands import Ccmix


def test_the_list_has_each_experiment_with_its_cost(ccmix: Ccmix) -> None:
    listed = ccmix("reproduce")
    assert listed.returncode == 0
    for experiment in EXPERIMENTS:
        assert re.search(
            rf"^{experiment.name} .* reduced +\d+ +\d+:\d\d:\d\d .*B$", listed.stdout, re.MULTILINE
        )


def test_the_file_of_an_experiment_is_printed_in_the_form_that_would_run(ccmix: Ccmix) -> None:
    assert ccmix("reproduce", "dai-fig1", "--ini").stdout == form("dai-fig1", full=False)
    assert ccmix("reproduce", "dai-fig1", "--full", "--ini").stdout == form("dai-fig1", full=True)


def test_an_unknown_name(ccmix: Ccmix) -> None:
    refused = ccmix("reproduce", "dai-fig3")
    assert refused.returncode == 2
    assert "'dai-fig3' is not an experiment" in refused.stderr
    assert "dai-fig1" in refused.stderr


def test_the_runs_may_be_made_on_a_cluster_as_those_of_run(ccmix: Ccmix) -> None:
    """Checks only that the options arrive; tests/cluster makes runs on a cluster."""
    on_a_cluster = ("reproduce", "dai-fig1", "--executor", "dask://127.0.0.1:9")
    assert "no scheduler of Dask answers there" in ccmix(*on_a_cluster).stderr
    assert "-j is for this machine" in ccmix(*on_a_cluster, "-j", "2").stderr
    missing = ccmix(*on_a_cluster, "--shared", ccmix.folder / "none")
    assert "is not a folder on this machine" in missing.stderr


def test_an_unknown_statement(ccmix: Ccmix) -> None:
    refused = ccmix("reproduce", "dai-fig1", "--statement", "fair")
    assert refused.returncode == 2
    assert "'fair' is not a statement of dai-fig1" in refused.stderr
    assert "fair-at-300-ms" in refused.stderr
