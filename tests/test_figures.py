# SPDX-License-Identifier: Apache-2.0
"""The table that `make stats` prints."""

import figures
from figures import Figure

TWO = [
    Figure("top_k: variation", 10, 0.25, 0.0, 0.25, 0.002, 0.5, 0.3, "draws"),
    Figure("top_p: variation", 10, 0.75, 0.0, 0.75, 0.03, 0.5, 0.3, "draws"),
]


def test_a_figure_beyond_its_limit_is_recorded_and_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, "RECORDS", tmp_path)
    assert [figures.record(figure) for figure in TWO] == [True, False]
    figures.main()
    printed = capsys.readouterr().out
    assert "| top_p: variation | 10 | 0.75 | 0 | 0.75 | 0.03 | 0.5 | draws |" in printed


def test_a_claim_is_given_over_all_its_settings():
    [*_, row] = figures.claims(TWO)
    assert row == "| variation, 2 settings | 0.3 | 0.25 to 0.75 | 2.0e-03 to 0.03 | 10 | draws |"
