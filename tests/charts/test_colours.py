"""The colours of CCAs differ for everybody: also for the three kinds of dichromats."""

from itertools import combinations

import numpy as np
import pytest

from ccmix.charts.encodings import COLOURS, NO_CCA, cca_scale

LEAST_DIFFERENCE = 12.0  # of CIE 1976; a difference of about 2.3 is just visible side by side
# Machado, Oliveira and Fernandes 2009, "A Physiologically-based Model for Simulation of Color
# Vision Deficiency", severity 1.0; for linear RGB.
SEEN_BY = {
    "all cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
# sRGB to XYZ and the white point D65, IEC 61966-2-1.
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ.sum(axis=1)


def lab(colour: str, seen: object) -> np.ndarray:
    """Returns CIELAB of '#RRGGBB' as this viewer sees it."""
    coded = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    ratio = TO_XYZ @ np.clip(np.array(seen) @ linear, 0, 1) / WHITE
    x, y, z = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("who", SEEN_BY)
def test_colours_of_ccas_can_be_told_apart(who: str) -> None:
    seen = {cca: lab(colour, SEEN_BY[who]) for cca, colour in COLOURS.items()}
    least = min(
        (float(np.linalg.norm(seen[one] - seen[two])), one, two)
        for one, two in combinations(seen, 2)
    )
    assert least[0] >= LEAST_DIFFERENCE, least


def test_what_has_no_cca_has_a_colour_where_ccas_are_not_known_before() -> None:
    scale = cca_scale()
    assert dict(zip(scale["domain"], scale["range"], strict=True))["-"] == NO_CCA
