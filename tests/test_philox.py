# SPDX-License-Identifier: Apache-2.0
"""Philox4x32-10 against the known answers that come with its definition (Random123)."""

import backends
import pytest

KNOWN_ANSWERS = [  # counter, key, words
    (
        "00000000 00000000 00000000 00000000",
        "0000000000000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffffffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "299f31d0a4093822",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize("name", ["baseline", "avx2", "aarch64"])
@pytest.mark.parametrize("way", ["philox", "indexed"])
@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(name, way, counter, key, words):
    try:
        driver = backends.BACKENDS[name]()
    except backends.Unavailable as reason:
        pytest.skip(str(reason))
    numbers = [f"0x{word}" for word in (*counter.split(), key)]
    assert list(driver.lines(way, *numbers)) == [words]
