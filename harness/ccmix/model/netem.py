"""Describes the changes that netem makes to the packets of a path, and its place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ccmix.units import format_exact_percent


def gemodel_parameters(given: Sequence[float]) -> tuple[float, float, float, float]:
    """Returns p, r, 1-h and 1-k of netem's chain of two states, with tc's defaults for missing ones
    (tc-netem(8)): the probabilities of becoming bad and of becoming good, and of losing a packet in
    the bad and in the good state.
    """
    to_bad, to_good, loss_in_bad, loss_in_good = (
        *given,
        *(1 - given[0], 1.0, 0.0)[len(given) - 1 :],
    )
    return to_bad, to_good, loss_in_bad, loss_in_good


def mean_loss(model: str, parameters: Sequence[float]) -> float:
    """Returns the share of all packets that is lost in the long run; `parameters` are those of
    Loss.

    netem's chain of two states begins in the good state.
    """
    if model == "random":
        return parameters[0]
    to_bad, to_good, loss_in_bad, loss_in_good = gemodel_parameters(parameters)
    bad = to_bad / (to_bad + to_good) if to_bad else 0.0
    return bad * loss_in_bad + (1 - bad) * loss_in_good


@dataclass(frozen=True)
class Loss:
    """Describes how packets in the data direction are lost (tc-netem(8)). A path without loss has
    None instead.

    `parameters` are fractions: for random, the loss; for gemodel, p and as many of r, 1-h and 1-k
    as were given.
    """

    model: Literal["random", "gemodel"]
    parameters: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raises ValueError for parameters that lose nothing: a path without loss must have
        None.
        """
        if not self.mean:
            raise ValueError("a loss of 0 is no loss")

    def __str__(self) -> str:
        """Returns the loss as written in an INI file: '0.1%', 'gemodel 1% 10%'."""
        shares = " ".join(map(format_exact_percent, self.parameters))
        return shares if self.model == "random" else f"{self.model} {shares}"

    @property
    def mean(self) -> float:
        """The share of all packets that is lost in the long run."""
        return mean_loss(self.model, self.parameters)

    def all_lost(self, packets: int) -> float:
        """Returns the probability that this number of packets in a row is lost, at any time of a
        long run.

        It is also the probability of losing a packet and its retransmissions, if nothing else is
        sent in between.
        """
        if self.model == "random":
            return float(self.parameters[0] ** packets)
        to_bad, to_good, loss_in_bad, loss_in_good = gemodel_parameters(self.parameters)
        bad = to_bad / (to_bad + to_good) if to_bad else 0.0
        good = 1 - bad
        for packet in range(packets):
            if packet:
                good, bad = good * (1 - to_bad) + bad * to_good, good * to_bad + bad * (1 - to_good)
            good, bad = good * loss_in_good, bad * loss_in_bad
        return good + bad


@dataclass(frozen=True)
class Netem:
    """Describes netem's settings on a device between hosts. None: no loss, a queue that is never
    full, no rate.
    """

    delay_s: float = 0.0  # in each direction
    loss: Loss | None = None
    limit_packets: int | None = None
    rate_bps: float | None = None


@dataclass(frozen=True)
class NetemPlace:
    """Names a host and its devices: data leaves by the first, ACKs by the second (None: netem acts
    only on data).
    """

    host: str
    data_device: str
    ack_device: str | None

    def __str__(self) -> str:
        return f"{self.host}:{','.join(self.devices)}"

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(device for device in (self.data_device, self.ack_device) if device)
