# SPDX-License-Identifier: Apache-2.0
"""The frozen answers: tokens that no release may change unannounced."""

import make_goldens
import pytest
from goldens import GOLDENS

QUESTIONS = {name: (ask, what) for name, ask, what in make_goldens.questions()}


def test_every_question_has_its_answer():
    assert QUESTIONS.keys() == GOLDENS.keys()


@pytest.mark.kernels_ci
@pytest.mark.parametrize("name", GOLDENS)
def test_the_answer_is_the_frozen_one(sdo, name):
    ask, what = QUESTIONS[name]
    assert ask(sdo, "cpu", *what) == GOLDENS[name]
