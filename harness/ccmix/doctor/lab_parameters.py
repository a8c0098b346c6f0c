"""Checks whether the lab's own kernel takes the parameters of bbr2 and bbr3 that emulated paths set."""

from collections.abc import Iterable, Iterator

from ccmix.config.problems import nearest
from ccmix.doctor.findings import DoctorFinding, Status
from ccmix.lab.cca_parameters import PARAMETERS, Parameter
from ccmix.model import STOCK_KERNEL, ModuleParameter, Topology


def refusal(topology: Topology) -> str | None:
    """Returns why the lab's own kernel refuses the path's parameter; None where it does not, or only a run can say.

    A run alone can say it of another kernel, and of modules other than those of bbr2 and bbr3.
    """
    if topology.kernel != STOCK_KERNEL or topology.module_parameter is None:
        return None
    return _why_refused(topology.module_parameter)


def judge_lab_parameters(topologies: Iterable[Topology]) -> Iterator[DoctorFinding]:
    for topology in topologies:
        if (parameter := topology.module_parameter) and (reason := refusal(topology)):
            yield DoctorFinding(
                f"lab: parameter {parameter.path}", Status.FAIL, reason,
                "The entries set it, and each run would fail.",
            )  # fmt: skip


def _why_refused(wanted: ModuleParameter) -> str | None:
    module, _, name = wanted.path.partition("/parameters/")
    if module not in PARAMETERS:
        return None
    if name not in PARAMETERS[module]:
        return f"{module} has no parameter '{name}'{nearest(name, PARAMETERS[module])}"
    return _why_not_set(wanted, PARAMETERS[module][name])


def _why_not_set(wanted: ModuleParameter, parameter: Parameter) -> str | None:
    if parameter.read_only:
        return f"{wanted.path} can only be read"
    if wanted.element is None and parameter.elements > 1:
        return f"{wanted.path} has {parameter.elements} elements: name one, by sys-module-vector-list"
    if (wanted.element or 1) > parameter.elements:
        return f"{wanted.path} has no element {wanted.element}: it has {parameter.elements}"
    if not parameter.least <= int(wanted.value) <= parameter.most:
        return f"{wanted.path} takes no {wanted.value}: it takes {parameter.least} to {parameter.most}"
    return None
