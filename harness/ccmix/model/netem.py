"""What netem does to a path of real hosts, and where."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """Of packets in the data direction (tc-netem(8)); model is 'random' or 'gemodel'.

    `parameters` are fractions: for random the loss; for gemodel p, and as many of r, 1-h and 1-k as were given.
    """

    model: str
    parameters: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The share of all packets that is lost in the long run. netem's chain of two states begins in the good one."""
        if self.model == "random":
            return self.parameters[0]
        to_bad, *given = self.parameters
        to_good, loss_in_bad, loss_in_good = (*given, *(1 - to_bad, 1.0, 0.0)[len(given) :])
        bad = to_bad / (to_bad + to_good) if to_bad else 0.0
        return bad * loss_in_bad + (1 - bad) * loss_in_good


@dataclass(frozen=True)
class Netem:
    """`limit_packets` None: never full. `rate_bps` None: not limited."""

    delay_s: float = 0.0  # in each direction
    loss: Loss | None = None
    limit_packets: int | None = None
    rate_bps: float | None = None


@dataclass(frozen=True)
class NetemPlace:
    """The host and the devices: data leaves by the first, ACKs by the second (None: only data is touched)."""

    host: str
    data_device: str
    ack_device: str | None

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(device for device in (self.data_device, self.ack_device) if device)
