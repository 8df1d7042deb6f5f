# SPDX-License-Identifier: Apache-2.0
"""csrc/common/triple.h and block.h against Python's integers."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import block
from oracle.common import common

settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")

U64 = st.integers(0, 2**64 - 1)


def up_to(largest, least=0):
    """Of every size, and near both ends."""
    ends = st.sampled_from([least, least + 1, largest - 1, largest])
    numbers = st.integers(least, largest)
    spread = st.builds(lambda x, n: max(x >> n, least), numbers, st.integers(0, 191))
    return st.one_of(spread, numbers, ends.map(lambda x: min(max(x, least), largest)))


MASS, DRAWN, TOTAL = up_to(2**43), up_to(2**43, 1), up_to(2**63, 1)
SHARE = up_to(block.ONE)


def words(x, count=3):
    return np.array([x >> (64 * (count - 1 - i)) & (2**64 - 1) for i in range(count)], np.uint64)


def whole(array):
    return int(array[0]) << 128 | int(array[1]) << 64 | int(array[2])


def called(function, *arguments):
    out = np.zeros(3, np.uint64)
    arrays = [words(a, n).ctypes if n else a for a, n in arguments]
    function(*[a if isinstance(a, int) else a.data for a in arrays], out.ctypes.data)
    return out


@given(up_to(2**191 - 1), up_to(2**191 - 1))
def test_sums_of_192_bits_are_exact(a, b):
    total, rest, a_words, b_words = (
        np.zeros(3, np.uint64),
        np.zeros(3, np.uint64),
        words(a),
        words(b),
    )
    common.add_and_sub_of(*[x.ctypes.data for x in (a_words, b_words, total, rest)])
    assert (whole(total), whole(rest)) == (a + b, a)


@given(U64, up_to(2**192 - 1))
def test_a_goal_of_192_bits_never_reaches_the_whole(fraction, a):
    goal = whole(called(common.scale_triple_of, (fraction, 0), (a, 3)))
    assert goal == fraction * a >> 64
    assert goal < a or a == 0


@settings(max_examples=1000)
@given(up_to(2**128 - 1, 1), up_to(2**63 - 1), st.data())
def test_quotients_of_192_bits_are_exact(divisor, quotient, data):
    rest = data.draw(up_to(divisor - 1))
    a = divisor * quotient + rest
    assert int(called(common.divide_of, (a, 3), (divisor, 2))[0]) == quotient


@settings(max_examples=500)
@given(SHARE, MASS, TOTAL, DRAWN, TOTAL)
def test_the_next_share_is_the_oracles(share, p, p_total, q, q_total):
    given_ = share, p, p_total, q, q_total
    assert common.next_share_of(*given_) == block.next_ratio(*given_)


@given(SHARE, MASS, TOTAL)
def test_equal_laws_leave_the_share_as_it_is(share, p, total):
    p = max(p, 1)
    assert common.next_share_of(share, p, total, p, total) == share


@settings(max_examples=500)
@given(U64, SHARE, MASS, TOTAL, DRAWN, TOTAL)
def test_the_last_test_is_exact_and_not_rounded(word, share, p, p_total, q, q_total):
    threshold = -(-2 * share * p * q_total // (q * p_total))  # the first word that fails
    for w in {word, max(threshold - 1, 0), threshold}:
        if w < 2**64:
            given_ = share, p, p_total, q, q_total
            assert common.last_stands_of(w, *given_) == (w < threshold)


@settings(max_examples=500)
@given(U64, SHARE, TOTAL, TOTAL, st.data())
def test_a_test_is_exact_on_both_sides_of_its_boundary(word, share, p_total, q_total, data):
    most = share * p_total * q_total  # what a row's W can sum to
    s = data.draw(up_to(most))
    n = s + (block.ONE - share) * p_total * q_total
    threshold = -(-(s << 64) // n) if n else 0
    for w in {word, max(threshold - 1, 0), threshold}:
        if w < 2**64:
            stands = share == block.ONE or w * n < s << 64
            sum_words = words(s)
            passes = common.stands_of(w, sum_words.ctypes.data, share, p_total, q_total)
            assert passes == stands
            assert not stands or common.may_stand_of(w, share)


@settings(max_examples=500)
@given(SHARE, MASS, TOTAL, MASS, TOTAL)
def test_block_weights_are_exact(share, p, p_total, q, q_total):
    given_ = share, p, p_total, q, q_total
    wanted = max(share * p * q_total - block.ONE * q * p_total, 0)
    assert whole(called(common.block_weight_of, *[(x, 0) for x in given_])) == wanted
