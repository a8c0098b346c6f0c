"""Reads cumulative counters at any moment: of sockets and queues, from samples of them."""

from collections.abc import Mapping, Sequence

import polars as pl

_BEFORE, _AFTER = "before_s", "after_s"


def unwrapped(samples: pl.DataFrame, keys: Sequence[str], counters: Sequence[str]) -> pl.DataFrame:
    """Returns the samples sorted by time, with counters as floats that go on if one of 32 bits starts again at 0."""

    def of(counter: str) -> pl.Expr:
        value = pl.col(counter)
        steps = (value - value.shift(1)).cast(pl.Int64).over(keys)  # modulo 2**32 of a column of 32 bits
        return (value.first().cast(pl.Int64).over(keys) + steps.fill_null(0).cum_sum().over(keys)).cast(pl.Float64)

    return samples.sort("time_s", maintain_order=True).with_columns(of(counter).alias(counter) for counter in counters)


def values_at(
    samples: pl.DataFrame, keys: Sequence[str], moments: pl.DataFrame, counters: Sequence[str]
) -> pl.DataFrame:
    """Returns `moments` (with the columns `keys` and `moment_s`, a moment a row), with the value of each counter then.

    It is interpolated linearly between the samples around a moment; 0 before the first one, and the last value behind
    the last one. Samples are sorted by `time_s`.
    """
    values = samples.select(*keys, "time_s", *counters)
    asked = moments.sort("moment_s", maintain_order=True)
    found = asked.join_asof(
        values.rename({"time_s": _BEFORE}), left_on="moment_s", right_on=_BEFORE, by=keys, check_sortedness=False
    ).join_asof(
        values.rename({"time_s": _AFTER, **{name: f"{name}_after" for name in counters}}),
        left_on="moment_s", right_on=_AFTER, by=keys, strategy="forward", check_sortedness=False,
    )  # fmt: skip
    passed = (pl.col("moment_s") - pl.col(_BEFORE)) / (pl.col(_AFTER) - pl.col(_BEFORE))
    share = pl.when(pl.col(_AFTER) > pl.col(_BEFORE)).then(passed).otherwise(0.0)
    return found.select(
        *moments.columns,
        *(
            (pl.col(name) + (pl.col(f"{name}_after").fill_null(pl.col(name)) - pl.col(name)) * share)
            .fill_null(0.0)
            .alias(name)
            for name in counters
        ),
    )


def growth(samples: pl.DataFrame, begin_s: float, end_s: float, counters: Sequence[str]) -> Mapping[str, float]:
    """Returns how much the counters of one thing grew between two moments; from its first sample on at the earliest."""
    keys = {"of": pl.lit(0)}
    own = unwrapped(samples.with_columns(**keys), ["of"], counters)
    begin_s = max(begin_s, float(own["time_s"][0]))
    moments = pl.DataFrame({"moment_s": [begin_s, max(begin_s, end_s)]}).with_columns(**keys)
    first, last = values_at(own, ["of"], moments, counters).select(counters).rows(named=True)
    return {name: last[name] - first[name] for name in counters}
