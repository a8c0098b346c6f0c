"""Describes the delay, loss, rate and limit that netem applies to packets, and its place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ccmix.units import format_exact_percent


def gemodel_parameters(given: Sequence[float]) -> tuple[float, float, float, float]:
    """Returns the four parameters p, r, 1-h and 1-k of netem's Gilbert-Elliott loss model. The
    model has a good and a bad state: p and r are the probabilities of becoming bad and of becoming
    good; 1-h and 1-k are the probabilities of losing a packet in the bad and in the good state.

    `given`: the first one to four parameters. Those that are missing get tc's defaults
    (tc-netem(8)).
    """
    defaults = 1 - given[0], 1.0, 0.0
    to_bad, to_good, loss_in_bad, loss_in_good = *given, *defaults[len(given) - 1 :]
    return to_bad, to_good, loss_in_bad, loss_in_good


def mean_loss(model: str, parameters: Sequence[float]) -> float:
    """Returns the share of all packets that a loss model loses in the long run.

    `model` is 'random' or 'gemodel'. `parameters` are fractions: the loss of 'random', or one to
    four parameters of 'gemodel' (see gemodel_parameters()).
    """
    if model == "random":
        return parameters[0]
    to_bad, to_good, loss_in_bad, loss_in_good = gemodel_parameters(parameters)
    share_bad = to_bad / (to_bad + to_good) if to_bad else 0.0
    return share_bad * loss_in_bad + (1 - share_bad) * loss_in_good


@dataclass(frozen=True)
class Loss:
    """Describes how packets in the data direction are lost (tc-netem(8)). A path without loss has
    None instead.

    `parameters` are fractions. The model 'random' has one, the loss. The model 'gemodel' has one to
    four: p, r, 1-h and 1-k (see gemodel_parameters()).
    """

    model: Literal["random", "gemodel"]
    parameters: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raises ValueError if the parameters lose nothing, because a path without loss must have
        None instead.
        """
        if not self.mean:
            raise ValueError("a loss of 0 is no loss")

    def __str__(self) -> str:
        """Returns the loss as written in an INI file: '0.1%', or 'gemodel 1% 10%'."""
        shares = " ".join(map(format_exact_percent, self.parameters))
        return shares if self.model == "random" else f"{self.model} {shares}"

    @property
    def mean(self) -> float:
        """The share of all packets that is lost in the long run."""
        return mean_loss(self.model, self.parameters)

    def all_lost(self, packets: int) -> float:
        """Returns the probability that this number of packets in a row is lost, at any time of a
        long run.

        It is also the probability of losing a packet and all of its retransmissions, if nothing
        else is sent in between. So it says how often a handshake may be lost.
        """
        if self.model == "random":
            return float(self.parameters[0] ** packets)
        to_bad, to_good, loss_in_bad, loss_in_good = gemodel_parameters(self.parameters)
        in_bad = to_bad / (to_bad + to_good) if to_bad else 0.0
        in_good = 1 - in_bad
        for packet in range(packets):
            if packet:
                in_good, in_bad = (
                    in_good * (1 - to_bad) + in_bad * to_good,
                    in_good * to_bad + in_bad * (1 - to_good),
                )
            in_good, in_bad = in_good * loss_in_good, in_bad * loss_in_bad
        return in_good + in_bad


@dataclass(frozen=True)
class Netem:
    """Describes netem's settings on a device between hosts. None stands for no loss, for a queue
    that is never full, and for no limit of the rate.
    """

    delay_s: float = 0.0  # in each direction
    loss: Loss | None = None
    limit_packets: int | None = None
    rate_bps: float | None = None


@dataclass(frozen=True)
class NetemPlace:
    """Names a host and its devices that have netem: data leaves the host by `data_device`, ACKs by
    `ack_device`. `ack_device` is None if netem acts only on data.
    """

    host: str
    data_device: str
    ack_device: str | None

    def __str__(self) -> str:
        """Returns 'HOST:DEVICE' or 'HOST:DEVICE,DEVICE', as in an INI file."""
        return f"{self.host}:{','.join(self.devices)}"

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that have netem: one, or two if ACKs are delayed, too."""
        return tuple(device for device in (self.data_device, self.ack_device) if device)
