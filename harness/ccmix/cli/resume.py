"""Continues a campaign with the runs that are planned now, if they do not change finished runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ccmix.analysis.counting import accept_findings
from ccmix.archive import ArchiveError, Campaign, RunFolder, codec
from ccmix.archive.campaign import FILE
from ccmix.config import ini
from ccmix.model import Run, run_files
from ccmix.model.results import CampaignPlan

GROWS = ("iterations", "accept-limits")  # keys whose change leaves finished runs as they are


def resumed(outdir: Path, plan: CampaignPlan, config: Path) -> Campaign:
    """Returns the campaign in a folder with the runs of `plan`, and writes them to campaign.json.

    A campaign grows: it may get more iterations and entries, and other accept-limits, which its
    finished runs then get, too. Raises ArchiveError, which names the section and the key, if a
    finished run would change, or if the lab, a kernel or the userland is another one.
    """
    campaign = Campaign.load(outdir)
    _check_lab(campaign, plan)
    if campaign.runs == plan.runs and campaign.ini == plan.ini:
        return campaign
    planned = {run.name: run for run in plan.runs}
    finished = [run for run in campaign.runs if RunFolder.of(outdir, run).finished]
    for run in finished:
        new = planned.get(run.name)
        if new is None or replace(new, accept_limits=run.accept_limits) != run:
            raise ArchiveError(
                f"{outdir}: can't be resumed with {config}, because its finished run {run.name} "
                f"would {'change' if new else 'be left out'}: "
                f"{_cause(campaign, plan, GROWS if new else ())}: "
                "undo that, or give another folder with -o"
            )
    kernels = {kernel.name: kernel for kernel in (*campaign.origin.kernels, *plan.origin.kernels)}
    origin = replace(campaign.origin, seed=plan.origin.seed, kernels=tuple(kernels.values()))
    grown = Campaign(outdir, replace(plan, origin=origin))
    for run in finished:
        if run.accept_limits != planned[run.name].accept_limits:
            _accept_limits(RunFolder.of(outdir, run), planned[run.name])
    codec.write_plan(outdir / FILE, grown.plan)
    return grown


def _check_lab(campaign: Campaign, plan: CampaignPlan) -> None:
    """Raises ArchiveError if the runs would be made in another kind of lab than the finished ones,
    because their results would not be comparable.
    """
    outdir, old, new = campaign.outdir, campaign.origin, plan.origin
    if old.lab != new.lab:
        raise ArchiveError(
            f"{outdir}: was started {'with' if old.lab else 'without'} --lab: resume it in the "
            "same way"
        )
    kernels = {kernel.name: kernel for kernel in new.kernels}
    if changed := [each.name for each in old.kernels if kernels.get(each.name, each) != each]:
        raise ArchiveError(
            f"{outdir}: was started with another kernel {changed[0]} of the lab (its hash is in "
            "campaign.json): resume with that kernel, or give another folder with -o"
        )
    if old.userland_sha256 != new.userland_sha256:
        raise ArchiveError(
            f"{outdir}: was started with another userland of the lab (its hash is in "
            "campaign.json): resume with that userland, or give another folder with -o"
        )


def _cause(campaign: Campaign, plan: CampaignPlan, harmless_keys: tuple[str, ...]) -> str:
    """Returns the changes since the campaign was planned, for the user."""
    if campaign.origin.seed != plan.origin.seed:
        return f"--seed is {plan.origin.seed} and was {campaign.origin.seed}"
    if changes := list(_changed_keys(campaign.ini, plan.ini, harmless_keys)):
        return "; ".join(changes)
    return "an option that selects or changes entries, or a file that they name, has changed"


def _changed_keys(old_ini: str, new_ini: str, harmless_keys: tuple[str, ...]) -> Iterator[str]:
    """Yields each change of an INI file that may change runs: '[a] rate = 5mbit, was 6mbit'."""
    old, new = _values(old_ini), _values(new_ini)
    for place in {**old, **new}:
        (section, key), before, after = place, old.get(place), new.get(place)
        if before == after or key in harmless_keys or (section, "") not in old:
            continue
        if (section, "") in new:
            yield f"[{section}] {key} = {after or '(none)'}, was {before or '(none)'}"
        elif not key:
            yield f"[{section}] is missing"


def _values(text: str) -> dict[tuple[str, str], str]:
    """Returns the values of an INI file by section and key, and '' for each section itself."""
    file = ini.read(Path(FILE), text)
    values = {}
    for section in (file.default, *file.sections):
        values[section.name, ""] = ""
        values |= {(section.name, key): value for key, value in section.own.items()}
    return values


def _accept_limits(folder: RunFolder, run: Run) -> None:
    """Writes a finished run again with the verdict that it has with the planned accept-limits."""
    finished = folder.read()
    verdict = finished.verdict
    nothing_accepted = replace(
        verdict,
        status="limited" if verdict.status == "valid" else verdict.status,
        findings=tuple(replace(each, accepted=False) for each in verdict.findings),
    )
    changed = accept_findings(
        replace(finished, run=run, verdict=nothing_accepted), run.accept_limits
    )
    codec.write(folder.path / run_files.SUMMARY, codec.FINISHED_RUN, changed)
