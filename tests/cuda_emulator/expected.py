# SPDX-License-Identifier: Apache-2.0
"""What the kernels of semantics.cu compute, by numpy and Python's integers, and inputs for them."""

import math
from fractions import Fraction

import numpy as np

COUNT = 512
CANONICAL_NAN = 0x7FFFFFFF
SPECIAL_FLOATS = [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000]
SPECIAL_FLOATS += [0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345]
SPECIAL_FLOATS += [0x4F000000, 0xCF000000, 0x4EFFFFFF, 0x3F000000, 0x3FC00000, 0x477FF000]
MASK = 0xFFFFFFFF


def words(seed):
    """Of all sizes, with the corners first."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 2**32, COUNT, dtype=np.uint32) >> random.integers(0, 32, COUNT).astype(
        np.uint32
    )
    corners = [0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, MASK]
    x[: len(corners)] = random.permutation(corners)
    return x


def floats(seed):
    """Every pair of special values stands somewhere in floats(0), floats(1)."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 2**32, COUNT, dtype=np.uint32)
    special = np.array(SPECIAL_FLOATS, np.uint32)
    pairs = np.arange(len(special) ** 2)
    x[: len(pairs)] = special[pairs % len(special) if seed else pairs // len(special)]
    return x.view(np.float32)


def float_bits(x):
    """As bits, with NVIDIA's NaN for any NaN."""
    x = np.asarray(x, np.float32)
    return np.where(np.isnan(x), np.uint32(CANONICAL_NAN), x.view(np.uint32))


def half_to_float():
    return np.arange(65536).astype(np.uint16).view(np.float16).astype(np.float32)


def integers(x, rounded, low, high, of_nan=0):
    """Clamped; `rounded` says how."""
    values = [of_nan if np.isnan(v) else rounded(v) if np.isfinite(v) else v for v in x]
    return [int(min(max(v, low), high)) for v in values]


def float_to_int32s(x):
    x = x.astype(np.float64)
    columns = [integers(x, how, -(2**31), 2**31 - 1) for how in (round, math.trunc, math.floor)]
    columns.append(integers(x, math.trunc, 0, 2**32 - 1))
    return np.array(columns).T.astype(np.uint32)


def float_to_int64(x):
    return np.array(integers(x.astype(np.float64), round, -(2**63), 2**63 - 1, -(2**63)))


def rounded_to_float(x):
    """To nearest, of a Fraction or an int that float32 has a neighbour of."""
    if x == 0:
        return 0.0
    exponent = max(math.floor(math.log2(abs(x))) - 23, -149)
    for e in (exponent - 1, exponent, exponent + 1):
        scaled = Fraction(x) / Fraction(2) ** e
        if e >= -149 and abs(scaled) < 2**24:
            return float(round(scaled) * Fraction(2) ** e)
    raise ValueError(x)


def integers_to_float(x):
    rows = [(v, v - 2**32 * (v >= 2**31), v * v) for v in map(int, x)]
    return np.array([[rounded_to_float(v) for v in row] for row in rows], np.float32)


def fused(a, b, c):
    if not (np.isfinite(a) and np.isfinite(b)):
        return np.float32(np.float64(a) * np.float64(b) + c)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if abs(exact) >= Fraction(2) ** 128 - Fraction(2) ** 103:
        return np.float32(np.copysign(np.inf, float(exact > 0) - 0.5))
    return np.float32(rounded_to_float(exact))


def extreme(a, b, pick):
    """fmin and fmax: the number, if there is one; -0 is below 0."""
    if np.isnan(a) or np.isnan(b):
        return b if np.isnan(a) else a
    return pick((a, b), key=lambda x: (x, not np.signbit(x)))


def float_arithmetic(a, b):
    with np.errstate(all="ignore"):
        fma = [fused(x, y, np.float32(0.1)) for x, y in zip(a, b)]
        low, high = ([extreme(x, y, pick) for x, y in zip(a, b)] for pick in (min, max))
        columns = [a + b, a * b, a / b, np.sqrt(a), fma, low, high, a - b]
    return float_bits(np.array(columns, np.float32).T)


def float_comparisons(a, b):
    unordered = np.isnan(a) | np.isnan(b)
    flags = [a < b, a <= b, a == b, a != b, unordered, ~(a < b)]
    return sum(flag.astype(np.uint32) << bit for bit, flag in enumerate(flags))


def double_arithmetic(a, b):
    with np.errstate(all="ignore"):
        columns = [a + b, a * b, a / b, np.sqrt(a), a.astype(np.float32).astype(np.float64)]
    return np.array(columns).T


def signed(x, size=32):
    return x - (1 << size) if x >> (size - 1) & 1 else x


def permuted(a, b, select):
    result = 0
    for i in range(4):
        chosen = select >> 4 * i & 15
        byte = (b << 32 | a) >> 8 * (chosen & 7) & 255
        if chosen & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << 8 * i
    return result


def bit_field(a, start, length):
    """bfe.s32: bits beyond the top are the sign."""
    if length == 0:
        return 0
    field = signed(a) >> min(start, 31)
    return signed(field & ((1 << length) - 1), length) & MASK


def bits(a, b):
    rows = []
    for x, y in zip(map(int, a), map(int, b)):
        n = y % 40
        both = y << 32 | x
        mask = 0x7F << n & MASK
        shifted = x >> n % 32
        rows.append(
            [
                (both << n % 32) >> 32 & MASK,
                both >> min(n, 32) & MASK,
                permuted(x, y, (x ^ y) & MASK),
                (x & y | ~x & n) & MASK,
                bit_field(x, n, y >> 8 & 31),
                y & ~mask | (x << n) & mask,
                bin(x).count("1"),
                32 - shifted.bit_length(),
                int(f"{x:032b}"[::-1], 2),
                (shifted.bit_length() - 1) & MASK,
                (x << n) & MASK if n < 32 else 0,
                signed(x) >> min(n, 31) & MASK,
            ]
        )
    return np.array(rows, np.uint32)


def wide_integers(a, b):
    rows = []
    for x, y in zip(map(int, a), map(int, b)):
        sx, sy, odd = signed(x, 64), signed(y, 64), signed(y | 1, 64)
        remainder = abs(sx) % abs(odd) * (-1 if sx < 0 else 1)
        high = x * y >> 64
        row = [high, sx * sy >> 64, x * y, x // (y | 1), remainder, (x * y + x) >> 64]
        rows.append([value & (2**64 - 1) for value in row])
    return np.array(rows, np.uint64)


def warp(x, block):
    """Of int32 values under 2^16."""
    rows = []
    for i, value in enumerate(map(int, x)):
        lanes = [int(v) for v in x[i // 32 * 32 : i // 32 * 32 + 32]]
        threads = x[i // block * block : i // block * block + block]
        lane = i % 32
        up, down = lane - 3, lane + 5
        odd = [v for v in lanes if v & 1]
        rows.append(
            [
                sum(lanes),
                min(lanes),
                sum((v & 1) << k for k, v in enumerate(lanes)),
                sum((v & 7 == value & 7) << k for k, v in enumerate(lanes)),
                lanes[up] if up >= lane // 8 * 8 else value,
                lanes[down] if down < lane // 16 * 16 + 16 else value,
                lanes[value & 31],
                int(np.sum(threads & 1)),
                int(np.any(threads == 3)),
                max(odd) if value & 1 else -1,
            ]
        )
    return np.array(rows).astype(np.uint32).view(np.int32)


def control(x):
    rows = []
    for value in map(int, x):
        array = [value * k for k in range(8)]
        array[value & 7] = 1000
        total = sum(array[(k * 3 + value) & 7] * (k + 1) for k in range(8))
        n, steps = value & 0xFFFF, 0
        while n > 1:
            n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
        cases = [total + 5, total ^ 77, -total, math.trunc(Fraction(total, 3))]
        rows.append([cases[value & 3], steps])
    return np.array(rows, np.int32)
