# SPDX-License-Identifier: Apache-2.0
"""What tests/bits hashes to: of each function, how many checks and their hash.

Agreed on by g++ for x86-64 with and without AVX2 and FMA, g++ for aarch64, and nvcc's PTX; written
by `compare.py --freeze`. Whoever changes them changes everybody's tokens: see CHANGELOG.md.
"""

HASHES = {
    "philox": (1048576, "46dd436a942820eb"),
    "draw": (1048576, "e665eeb3fa51f3dd"),
    "noise": (1048576, "1cc011269a6badbd"),
    "log_normal": (1048576, "5f56315daf4a28ba"),
    "gumbel": (1048576, "0cee7f4107d476f4"),
    "gumbel_words": (16777216, "ef180460fa66d418"),
    "gumbel_ends": (1048576, "9f8579f8cc2505a6"),
    "exact_sum": (1048576, "a4cc1b441f39acde"),
    "beats": (1048576, "a444cad9398ce91c"),
    "mass_scale": (1048576, "213cdea49b7a3918"),
    "weight": (1048576, "f1a27b7cae2e62dc"),
    "mass_of_weight": (1048576, "f91270bcd7d2fab7"),
    "fixed_point": (1048576, "b3faf58588b5e32e"),
    "exponent_above": (1048576, "c4f7ea9bb1617faa"),
    "widen": (1048576, "0b2f03ed4fb634d1"),
    "penalise": (1048576, "3a7c6b3591a85062"),
    "quotient": (1048576, "5e34d1b99ae3305a"),
    "order": (1048576, "c5eb5b0bfe22369b"),
    "least_logit": (1048576, "f0c883ca5201e6f3"),
    "quota": (1048576, "2c39052853fd10dc"),
    "cut": (1048576, "57b9a5760f78e256"),
    "filter": (1048576, "ef43b71faf3ffe49"),
    "accept": (1048576, "e7db7274749e20e2"),
    "mass_in_row": (1048576, "39096be56b439dda"),
    "log_probability": (1048576, "99df51d0cc50d525"),
    "wide": (1048576, "3713e69520e4ffd6"),
    "triple": (1048576, "eb87c2c7dc8596c3"),
    "block": (1048576, "1be5af17ec0bb8cd"),
}
