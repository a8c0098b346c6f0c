"""What experiments cost, by form."""

import pytest

from ccmix.analysis.cost import cost
from ccmix.papers.costs import FULL, REDUCED, TRIED, costs, real_s
from ccmix.papers.made_by import planned
from ccmix.papers.registry import by_name


def test_what_was_tried_costs_more_than_the_reduced_form_alone() -> None:
    forms = costs(by_name()["gomez-fig7"], 1, 2)
    assert list(forms) == [REDUCED, TRIED, FULL]
    assert forms[REDUCED].real_s < forms[TRIED].real_s
    assert forms[FULL] == cost(planned("gomez-fig7", 1, full=True, tried=False), 2)


def test_where_nothing_was_tried_the_reduced_form_stands_for_it_in_a_sum() -> None:
    both = [costs(by_name()[name], 1, 2) for name in ("dai-fig1", "gomez-fig7")]
    assert TRIED not in both[0]
    assert real_s(both, TRIED) == pytest.approx(both[0][REDUCED].real_s + both[1][TRIED].real_s)
