# SPDX-License-Identifier: Apache-2.0
"""What tests/bits hashes to: the first chunks of each function.

Agreed on by g++ for x86-64 with and without AVX2 and FMA, g++ for aarch64, and nvcc's PTX.
"""

HASHES = {
    "philox": ["e001dd43691f5820", "65f93a15a89c8776", "645df055a58fc011", "9a6f97a50f7e8d01"],
    "draw": ["a9744262dc618ca4", "380ad79bf7753503", "9f56ccc2e5d3bfa3", "2c20cbbf68af11d7"],
    "noise": ["13a454db91d0a433", "bd1583e98301a123", "30714b3b5283997c", "1bf3509fba17657a"],
    "log_normal": ["bf070e221665fc7d", "e2e1fa538e95910a", "218edaeb8fe9b077", "152d547865e01d47"],
    "gumbel": ["a97c20ef7eec2e53", "25b6d7444d0033e2", "72e47671baed98d5", "d5b3a8b52bc605a1"],
    "gumbel_words": [
        "59691e7331fc572f",
        "c4fa93beba61046a",
        "180ec138a4380cf1",
        "916856e2f8d96dbe",
    ],
    "gumbel_ends": ["938e008ca23bc402", "c6db22258d78909e", "ac4e133a568fee23", "db8019461febd519"],
    "exact_sum": ["63596aefd1a4ca4c", "b7d25da974e498ce", "32c95b69ad5c7f07", "9197549889ea0afe"],
    "beats": ["7dbb64aabdc55b62", "8e9ccc987e0fb10c", "5cd2910c1a3c5b64", "ecddefaef3e4662d"],
    "mass_scale": ["cfa2b5fb35f91b8a", "1656c92e490ff0b7", "bf37e0fc3106de8e", "2979fddd073cff17"],
    "weight": ["b979b7ba1103f566", "b8e2c4b6d8983459", "ac9263b509c2c8c9", "246430751aadc87b"],
    "mass_of_weight": [
        "d039975769e4e0d5",
        "11f8c7b00735137c",
        "705d181f43cd3931",
        "5a1519e0499a734d",
    ],
    "fixed_point": ["8db8afa1809b8c54", "1b50ede8d90df5be", "870941faef129a71", "ecae3566c2408ac0"],
    "exponent_above": [
        "40968598097fe811",
        "95893adf5e5f3f08",
        "c425b685bf05e09b",
        "0180fae18952421a",
    ],
    "widen": ["5e640daf2e2690a6", "ca83e18ac2a6e777", "9f8068c64fae5eff", "5e14a5ac6cbea369"],
    "penalise": ["13628df3acdb7fad", "faaa7af229f15d05", "44a9477b9fdc8139", "45121fe17f0a080e"],
    "quotient": ["dadb17fbafc7708d", "621866acbe38abfc", "eceec13acce75359", "d78280d90f7af84c"],
    "order": ["b55c5a6cab9f5f94", "55e72f10559cdbf0", "a393fe645e25f556", "8604c20f6eb3e457"],
    "least_logit": ["a31e664e15141fc8", "49ce6baf3fed28ab", "694ededca5c9056c", "c478f3c6000ded36"],
    "quota": ["b0b59460b1ae2fa6", "bd3f458da7572d79", "9754113244be35a6", "4a2979f24798b3ac"],
    "cut": ["1c620d9a78459a4c", "c9f933b163049934", "9ecf950ffea44098", "31f12db6cb82f385"],
    "filter": ["bde410041e92d98e", "37a77b1af10848ec", "7011630d791267cc", "5cc197e33d963beb"],
    "accept": ["23ed297f39c00fb6", "dbc2193d275ea06c", "9de90805844022fc", "5e4f9665d09024e6"],
    "wide": ["86eba5397ca8ebb2", "f8d9f30b36554944", "5945dd887d137ae7", "2e6082da6cf87ee0"],
}
