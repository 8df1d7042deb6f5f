# SPDX-License-Identifier: Apache-2.0
"""csrc/common/ against exact arithmetic and float64: known answers, ranges, accuracy."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracle import oracle
from oracle.common import common

settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")

U64 = st.integers(0, 2**64 - 1)
MASS = st.integers(0, 2**43)
TOTAL = st.integers(1, 2**63)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
FINITE_MAX = float(np.finfo(np.float32).max)


def float_of(bits):
    return struct.unpack("f", struct.pack("I", bits))[0]


POSITIVE = st.integers(1, 0x7F7FFFFF).map(float_of)


def philox(counter, key):
    counter, out = np.array(counter, np.uint32), np.empty(4, np.uint32)
    common.philox(counter.ctypes.data, key, out.ctypes.data)
    return [int(word) for word in out]


# ---- Randomness ----

# Random123's kat_vectors, philox4x32 10.
KNOWN_ANSWERS = [
    ([0] * 4, 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([2**32 - 1] * 4, 2**64 - 1, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        0x299F31D0A4093822,
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.kernels_ci
@pytest.mark.parametrize("counter, key, words", KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(counter, key, words):
    assert philox(counter, key) == words


def test_a_draw_is_two_words_of_the_counter_that_names_it():
    seed, offset, stream, index = 0x0123456789ABCDEF, 0xABCDEF123456789, 7, 3
    for purpose in range(5):
        counter = [stream, index, offset % 2**32, (offset >> 32) << 4 | purpose]
        w0, w1, _, _ = philox(counter, seed)
        assert oracle.Place(seed, offset, stream).word(purpose, index) == w0 << 32 | w1


def test_a_tokens_noise_is_a_byte_of_its_block_and_a_word_of_its_own():
    seed, offset, stream, vocab = 2**64 - 5, 2**60 - 1, 2**32 - 1, 50
    tail = [offset % 2**32, (offset >> 32) << 4]
    noise = oracle.Place(seed, offset, stream).noise(vocab)
    for t in range(vocab):
        w0, w1, w2, w3 = philox([stream, t // 16, *tail], seed)
        block = (w0 << 32 | w1).to_bytes(8, "little") + (w2 << 32 | w3).to_bytes(8, "little")
        fine = philox([stream, t, tail[0], tail[1] | oracle.SAMPLE_FINE], seed)[0]
        assert noise[t] == np.float32(common.gumbel_of(block[t % 16], fine))


@settings(max_examples=1000)
@given(st.integers(0, 255), st.integers(0, 2**32 - 1))
@example(0, 0)
@example(0, 1)
@example(255, 2**32 - 1)
@example(127, 2**32 - 1)
@example(128, 0)
def test_gumbel_noise_is_accurate_at_both_ends(coarse, fine):
    v = (coarse * 2**32 + fine + 0.5) * 2.0**-40
    exact = -math.log(-math.log1p(-v) if v < 0.5 else -math.log(1 - v))
    assert abs(common.gumbel_of(coarse, fine) - exact) < 5e-7 * max(1, abs(exact))


def test_gumbel_noise_stays_within_the_bounds_that_prune():
    assert -3.4 < common.gumbel_of(255, 2**32 - 1) < common.gumbel_of(0, 0) < 28.43
    assert common.gumbel_of(0, 0) > 28  # 24-bit uniforms end at 16.6
    assert common.gumbel_of(1, 0) < 5.544


@settings(max_examples=500)
@given(*[FLOATS, st.integers(0, 2**31 - 1)] * 2, *[st.floats(-3.5, 28.5, width=32)] * 2)
def test_scores_compare_as_exact_sums(y, token, y2, token2, g, g2):
    a, b = Fraction(y) + Fraction(g), Fraction(y2) + Fraction(g2)
    if token != token2 and max(abs(y), abs(y2)) < FINITE_MAX / 2:
        assert common.beats_of(y, g, token, y2, g2, token2) == ((a, -token) > (b, -token2))


# ---- Order ----


@given(FLOATS, FLOATS)
def test_order_keys_are_in_the_order_of_floats(a, b):
    assert (common.key_of(a) < common.key_of(b)) == (a < b)
    assert common.value_of(common.key_of(a)) == a


@given(FLOATS, POSITIVE)
@example(1.0, float_of(1))
@example(-1.0, FINITE_MAX)
def test_quotients_are_ieee_and_finite(x, temperature):
    y = oracle.quotients(np.array([x], np.float32), temperature)[0]
    assert common.quotient_of(x, temperature) == y
    assert np.isfinite(y)


@given(FLOATS, POSITIVE)
@example(0.0, float_of(1))
def test_the_least_logit_is_the_first_whose_quotient_reaches(y, temperature):
    if y <= common.quotient_of(FINITE_MAX, temperature):
        x = common.least_logit_of(y, temperature)
        below = common.value_of(common.key_of(x) - (2 if x == 0 else 1))  # past -0
        assert common.quotient_of(x, temperature) >= y
        assert x == -FINITE_MAX or common.quotient_of(below, temperature) < y


def test_halves_widen_exactly():
    bits = np.arange(2**16, dtype=np.uint16)
    wide = np.array([common.half_of(int(b)) for b in bits], np.float32)
    np.testing.assert_array_equal(wide, bits.view(np.float16).astype(np.float32))


# ---- Masses ----


@given(st.integers(0, 0x3F800000).map(float_of))
@example(2.0**-44)
@example(3 * 2.0**-44)
def test_a_mass_is_the_weight_rounded_to_43_bits(weight):
    assert common.mass_of(weight) == round(Fraction(weight) * 2**43)


@given(POSITIVE)
@example(1.0)
@example(float_of(1))
@example(float_of(3))
@example(float_of(0x800000))
def test_the_exponent_above_is_the_least_power_of_two(p):
    e = common.exponent_of(p)
    assert Fraction(2) ** (e - 1) < Fraction(p) <= Fraction(2) ** e


@given(POSITIVE, st.integers(-90, 195), st.sampled_from([43, 60]))
@example(float_of(1), 190, 43)
@example(float_of(3), 190, 43)
@example(2.0**-61, 60, 60)
@example(3 * 2.0**-61, 60, 60)
def test_fixed_point_rounds_to_even_and_saturates(p, bits, limit):
    exact = round(Fraction(p) * Fraction(2) ** bits)
    assert common.fixed_point_of(p, bits, limit) == min(exact, 2**limit)


def test_negative_and_nan_probabilities_count_nothing():
    for p in (-1.0, -0.0, 0.0, math.nan, -math.inf):
        assert common.fixed_point_of(p, 43, 43) == 0


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 2**63))
@example(5e-324, 1)
@example(0.5, 1)
@example(math.nextafter(1.0, 0.0), 2**63)
def test_a_quota_is_the_exact_ceiling(share, total):
    assert common.quota_of(share, total) == math.ceil(Fraction(share) * total)


def softmax64(x, temperature):
    y = x.astype(np.float64) / np.float64(np.float32(temperature))
    e = np.exp(y - y.max())
    return e / e.sum()


def probability_rows(vocab):
    r = np.random.default_rng(vocab)
    yield r.normal(size=vocab)
    yield 0.02 * r.normal(size=vocab) + 30
    yield 8 * r.normal(size=vocab)
    yield np.where(np.arange(vocab) == vocab // 2, np.log(vocab), 0)  # half the mass in the tail
    yield 1000 + np.where(np.arange(vocab) == 0, np.log(vocab), 0)


@pytest.mark.parametrize("vocab", [2, 1000, 2**17, 2**20])
def test_probabilities_are_softmax_within_total_variation_2_to_the_minus_20(vocab):
    worst = 0
    for temperature in (1e-6, 1e-3, 0.7, 1.0, 1.3, 1e6):
        for scale in (1, temperature):  # logits as they are, and of the temperature's size
            for row in probability_rows(vocab):
                x = (row * scale).astype(np.float32)
                mass = oracle.masses(x, temperature)
                p = mass.astype(np.float64) / float(mass.sum())
                worst = max(worst, np.abs(p - softmax64(x, temperature)).sum() / 2)
    assert worst < 2.0**-20


# ---- The accept rule ----


@given(U64, MASS, TOTAL, st.integers(1, 2**43), TOTAL)
@example(2**64 - 1, 5, 7, 5, 7)
@example(0, 0, 7, 5, 7)
@example(0, 1, 2**63, 2**43, 1)
def test_acceptance_is_decided_exactly(u, p, p_total, q, q_total):
    exact = Fraction(u, 2**64) * Fraction(q, q_total) < Fraction(p, p_total)
    assert common.accepts_of(u, p, p_total, q, q_total) == exact


@given(MASS, TOTAL, MASS, TOTAL)
def test_residual_weights_are_exact(p, p_total, q, q_total):
    out = np.empty(2, np.uint64)
    common.residual_of(p, p_total, q, q_total, out.ctypes.data)
    assert int(out[0]) << 64 | int(out[1]) == max(p * q_total - q * p_total, 0)


@given(U64, st.integers(0, 2**127))
def test_a_goal_never_reaches_the_whole(fraction, whole):
    out = np.empty(2, np.uint64)
    common.scale_of(fraction, whole >> 64, whole % 2**64, out.ctypes.data)
    goal = int(out[0]) << 64 | int(out[1])
    assert goal == fraction * whole >> 64
    assert goal < whole or whole == 0
