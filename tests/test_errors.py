# SPDX-License-Identifier: Apache-2.0
"""Bad input is refused before any work, by DESIGN's table: what was given, what is wanted."""

import cases
import pytest
import torch
from cases import INF, NAN

B, K, V = 3, 2, 40


def logits():
    return cases.rows("normal", B, V)


def batch():
    return (
        torch.zeros(B, K + 1, V),
        torch.zeros(B, K, V),
        torch.zeros(B, K, dtype=torch.int64),
    )


CALLS = {
    "sample": lambda sdo, **arguments: sdo.sample(logits(), **arguments),
    "filter_logits": lambda sdo, **arguments: sdo.filter_logits(logits(), **arguments),
    "verify": lambda sdo, **arguments: sdo.verify(*batch(), **arguments),
}
RANDOM = ["sample", "verify"]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "name, value",
    [
        ("temperature", NAN),
        ("temperature", INF),
        ("top_p", NAN),
        ("min_p", NAN),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -1.0),
        ("repetition_penalty", INF),
        ("repetition_penalty", NAN),
    ],
)
def test_scalars_without_meaning_are_value_errors(sdo, call, name, value):
    with pytest.raises(ValueError, match=f"{name}.*{value}"):
        CALLS[call](sdo, **{name: value})


@pytest.mark.parametrize("call", RANDOM)
@pytest.mark.parametrize("offset", [-1, 2**60, 2**64])
def test_offsets_outside_60_bits_are_value_errors(sdo, call, offset):
    with pytest.raises(ValueError, match=f"offset.*{offset}"):
        CALLS[call](sdo, seed=1, offset=offset)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p", "min_p", "repetition_penalty"])
@pytest.mark.parametrize("value", [True, "1"])
def test_bools_and_strings_are_type_errors(sdo, call, name, value):
    with pytest.raises(TypeError, match=f"{name} is {value!r}, wanted"):
        CALLS[call](sdo, **{name: value})


@pytest.mark.parametrize("call", RANDOM)
@pytest.mark.parametrize("name", ["seed", "offset"])
@pytest.mark.parametrize("value", [True, "1", 1.5])
def test_seeds_and_offsets_are_integers(sdo, call, name, value):
    with pytest.raises(TypeError, match=f"{name} is {value!r}, wanted"):
        CALLS[call](sdo, **{"seed": 1, name: value})


WRONG_TENSORS = [
    ("temperature", torch.ones(B, dtype=torch.float64), "float64[3]", "float32 of shape"),
    ("temperature", torch.ones(B + 1), "float32[4]", "[1] or [3]"),
    ("temperature", torch.ones(1, B), "float32[1, 3]", "[1] or [3]"),
    ("top_k", torch.ones(B), "float32[3]", "int64"),
    ("top_k", torch.ones(B, dtype=torch.int32), "int32[3]", "int64"),
    ("top_p", torch.ones(B, dtype=torch.int64), "int64[3]", "float32 or float64"),
    ("min_p", torch.ones(B, dtype=torch.float16), "float16[3]", "float32 or float64"),
    ("repetition_penalty", torch.ones(0), "float32[0]", "[1] or [3]"),
    ("prev_tokens", torch.ones(B, 4, dtype=torch.int32), "int32[3, 4]", "int64"),
    ("prev_tokens", torch.ones(B + 1, 4, dtype=torch.int64), "int64[4, 4]", "[3, L] or [L]"),
    ("prev_tokens", torch.ones(1, B, 4, dtype=torch.int64), "int64[1, 3, 4]", "[3, L] or [L]"),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name, value, given, wanted", WRONG_TENSORS)
def test_parameter_tensors_of_the_wrong_kind_are_runtime_errors(
    sdo, call, name, value, given, wanted
):
    with pytest.raises(RuntimeError) as error:
        CALLS[call](sdo, **{name: value})
    assert f"{call}: {name} is {given} on cpu, wanted" in str(error.value)
    assert wanted in str(error.value).split("wanted")[1]


@pytest.mark.parametrize("call", RANDOM)
@pytest.mark.parametrize("name", ["seed", "offset"])
def test_seed_and_offset_tensors_are_int64_of_the_batch(sdo, call, name):
    wrong = {r"float32\[3\]": torch.ones(B), r"int64\[4\]": torch.ones(B + 1, dtype=torch.int64)}
    for given, value in wrong.items():
        with pytest.raises(RuntimeError, match=f"{name} is {given}.*wanted int64"):
            CALLS[call](sdo, **{"seed": 1, name: value})


WRONG_LOGITS = {
    "float64": logits().double(),
    "int64": torch.zeros(B, V, dtype=torch.int64),
    "4-D": torch.zeros(1, 1, B, V),
    "0-D": torch.tensor(1.0),
    "stride": torch.zeros(V, B).T,
    "no vocabulary": torch.zeros(B, 0),
    "huge vocabulary": torch.zeros(1).expand(2**20 + 1)[None],
}


@pytest.mark.parametrize("op", ["sample", "filter_logits"])
@pytest.mark.parametrize("value", WRONG_LOGITS.values(), ids=WRONG_LOGITS)
def test_logits_of_the_wrong_kind_are_runtime_errors(sdo, op, value):
    with pytest.raises(RuntimeError, match=f"{op}: logits is .*, wanted"):
        getattr(sdo, op)(value)


def test_what_should_be_a_tensor_is_one(sdo):
    ids = torch.zeros(K).long()
    for call, name in [
        (lambda: sdo.sample([1.0, 2.0]), "logits"),
        (lambda: sdo.filter_logits([1.0, 2.0]), "logits"),
        (lambda: sdo.sample(logits(), prev_tokens=[1]), "prev_tokens"),
        (lambda: sdo.verify([[0.0]], None, batch()[2]), "target_logits"),
        (lambda: sdo.verify(batch()[0], [[0.0]], batch()[2]), "draft_logits"),
        (lambda: sdo.verify(*batch()[:2], [[0]]), "draft_tokens"),
        (lambda: sdo.accept([[1.0]], None, ids), "target_probs"),
        (lambda: sdo.accept(sequence()[0], None, [0, 0]), "draft_tokens"),
        (lambda: sdo.verify_greedy([[1.0]], ids), "target_probs"),
        (lambda: sdo.verify_greedy(sequence()[0], [0, 0]), "draft_tokens"),
    ]:
        with pytest.raises(TypeError, match=f"{name} is a list, wanted"):
            call()


@pytest.mark.parametrize(
    "position, wrong",
    [
        (0, torch.zeros(B, K + 1, V, dtype=torch.float64)),
        (0, torch.zeros(B, K, V)),
        (0, torch.zeros(K + 1, V)),
        (0, torch.zeros(B, V, K + 1).transpose(1, 2)),
        (1, torch.zeros(B, K + 1, V)),
        (1, torch.zeros(B + 1, K, V)),
        (1, torch.zeros(B, K, V, dtype=torch.int64)),
        (1, torch.zeros(B, K, 0)),
        (2, torch.zeros(B, K + 1, dtype=torch.int64)),
        (2, torch.zeros(B, K, dtype=torch.int32)),
        (2, torch.zeros(K, dtype=torch.int64)),
    ],
)
@pytest.mark.parametrize("method", ["token", "block", "coupled"])
def test_rounds_of_the_wrong_shape_are_runtime_errors(sdo, position, wrong, method):
    arguments = list(batch())
    arguments[position] = wrong
    names = "target_logits|draft_logits|draft_tokens"
    with pytest.raises(RuntimeError, match=f"verify: ({names}) is .*, wanted"):
        sdo.verify(*arguments, seed=1, method=method)


def test_an_unknown_method_is_a_value_error(sdo):
    with pytest.raises(ValueError, match='method is "?\'?tree.*"token", "block" or "coupled"'):
        sdo.verify(*batch(), method="tree")
    target, draft, tokens = (t[0] for t in batch())
    for method in ("coupled", None):
        with pytest.raises(ValueError, match=f'method is .?{method}.*"token" or "block"'):
            sdo.accept(target, draft, tokens, method=method)


def sequence():
    return torch.full((K + 1, V), 1 / V), torch.full((K, V), 1 / V), torch.zeros(K).long()


WRONG_SEQUENCES = [
    (0, torch.ones(K + 1, V, dtype=torch.float64)),
    (0, torch.ones(K, V)),
    (0, torch.ones(V)),
    (0, torch.ones(V, K + 1).T),
    (1, torch.ones(K + 1, V)),
    (1, torch.ones(K, V, dtype=torch.int64)),
    (2, torch.zeros(K + 1).long()),
    (2, torch.zeros(K)),
]


@pytest.mark.parametrize("position, wrong", WRONG_SEQUENCES)
def test_sequences_of_the_wrong_shape_are_runtime_errors(sdo, position, wrong):
    arguments = list(sequence())
    arguments[position] = wrong
    names = "target_probs|draft_probs|draft_tokens"
    with pytest.raises(RuntimeError, match=f"accept: ({names}) is .*, wanted"):
        sdo.accept(*arguments)
    if position != 1:
        with pytest.raises(RuntimeError, match=f"verify_greedy: ({names}) is .*, wanted"):
            sdo.verify_greedy(arguments[0], arguments[2])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["temperature", "repetition_penalty"])
@pytest.mark.parametrize("value", [1e-46, 1e-320, 2.0**-150])
def test_numbers_that_float32_would_turn_to_0_are_value_errors(sdo, call, name, value):
    """A temperature of 0 is greedy, and a penalty of 0 none at all: not what was asked for."""
    with pytest.raises(ValueError, match=f"{name} is {value}, which is 0 in float32"):
        CALLS[call](sdo, **{name: value})
    CALLS[call](sdo, **{name: 1e-45})


@pytest.mark.parametrize("call", CALLS)
def test_an_unknown_algorithm_is_a_value_error(sdo, call):
    for value in ("radix", None, 1):
        with pytest.raises(ValueError, match=f"{call}: algorithm is {value!r}, wanted") as error:
            CALLS[call](sdo, algorithm=value)
        assert all(f'"{name}"' in str(error.value) for name in ("auto", "sort", "select"))


def test_the_op_itself_refuses_an_unknown_algorithm(sdo):
    for place in (-1, 3):
        with pytest.raises(
            RuntimeError, match=f"algorithm is {place}, wanted 0 .auto., 1 .sort. or"
        ):
            sdo._ops.ops.filter_logits.default(logits(), 1.0, algorithm=place)


@pytest.mark.parametrize("call", CALLS)
def test_the_algorithm_changes_no_result(sdo, call):
    seed = {} if call == "filter_logits" else {"seed": 3}
    results = []
    for name in ("auto", "sort", "select"):
        result = CALLS[call](sdo, top_k=9, top_p=0.9, algorithm=name, **seed)
        results.append(torch.stack(result[1:]) if isinstance(result, tuple) else result)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize("call", CALLS)
def test_a_tensor_without_dimensions_is_one_number_for_all_rows(sdo, call):
    for name, number in [("temperature", 0.75), ("top_k", 3), ("top_p", 0.5), ("min_p", 0.25)]:
        seed = {} if call == "filter_logits" else {"seed": torch.tensor(5), "offset": 2}
        a = CALLS[call](sdo, **{name: torch.tensor(number)}, **seed)
        seed = {} if call == "filter_logits" else {"seed": 5, "offset": torch.tensor(2)}
        b = CALLS[call](sdo, **{name: number}, **seed)
        for x, y in zip(*((r if isinstance(r, tuple) else (r,)) for r in (a, b))):
            assert torch.equal(x, y)


def test_errors_ask_for_shapes_that_are_taken(sdo):
    for wrong in (torch.tensor(1.0), torch.zeros(1, 1, B, V)):
        for op in (sdo.sample, sdo.filter_logits):
            with pytest.raises(RuntimeError, match=r"wanted shape \[V\] or \[B, V\]"):
                op(wrong)
    target, draft, _ = batch()
    with pytest.raises(
        RuntimeError, match=r"draft_tokens is int32\[3, 2\].*int64 of shape \[3, 2\]"
    ):
        sdo.verify(target, draft, torch.zeros(B, K, dtype=torch.int32))
    with pytest.raises(RuntimeError, match=r"draft_tokens is float32\[2\].*int64 of shape \[2\]"):
        sdo.accept(*sequence()[:2], torch.zeros(K))
    with pytest.raises(RuntimeError, match=r"wanted shape \[B, k \+ 1, V\]"):
        sdo.verify(target[0], draft, torch.zeros(B, K).long())
    with pytest.raises(RuntimeError, match=r"wanted shape \[K \+ 1, V\] or.* \[B, K \+ 1, V\]"):
        sdo.verify_greedy(target[0, 0], torch.zeros(0).long())


# ---- A refused call draws nothing ----


REFUSED = {
    "logits": lambda sdo: sdo.sample(logits().double()),
    "prev_tokens": lambda sdo: sdo.sample(logits(), prev_tokens=torch.ones(B, 4)),
    "offset": lambda sdo: sdo.sample(logits(), offset=-1),
    "offset tensor": lambda sdo: sdo.sample(logits(), offset=torch.ones(B)),
    "NaN": lambda sdo: sdo.sample(bad_row(NAN), validate=True),
    "draft_tokens": lambda sdo: sdo.verify(*batch()[:2], torch.zeros(B, K)),
    "algorithm": lambda sdo: sdo.verify(*batch(), algorithm="radix"),
    "accept": lambda sdo: sdo.accept(*sequence()[:2], torch.zeros(K + 1).long()),
    "accept's batch": lambda sdo: sdo.accept(*batch()[:2], torch.zeros(B, K)),
    "accept's values": lambda sdo: sdo.accept(-sequence()[0], *sequence()[1:], validate=True),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_a_refused_call_has_taken_nothing_from_the_generator(sdo, call):
    before = torch.get_rng_state()
    with pytest.raises((RuntimeError, ValueError)):
        call(sdo)
    assert torch.equal(torch.get_rng_state(), before)


# ---- validate=True ----


def bad_row(value):
    x = logits()
    x[1, 7] = value
    return x


@pytest.mark.parametrize("op", ["sample", "filter_logits"])
def test_validate_names_the_row_and_column(sdo, op):
    call = getattr(sdo, op)
    with pytest.raises(ValueError, match=r"(?s)NaN.*\b1\b.*\b7\b"):
        call(bad_row(NAN), validate=True)
    empty = logits()
    empty[2] = -INF
    with pytest.raises(ValueError, match=r"\b2\b"):
        call(empty, validate=True)
    for token in (V, -2):
        previous = torch.zeros(B, 5, dtype=torch.int64)
        previous[2, 3] = token
        with pytest.raises(ValueError, match=r"(?s)prev_tokens.*\b2\b.*\b3\b"):
            call(logits(), prev_tokens=previous, validate=True)


@pytest.mark.parametrize("method", ["token", "block", "coupled"])
def test_validate_looks_at_every_input_of_a_round(sdo, method):
    for position, value in [(0, NAN), (1, NAN), (2, V), (2, -2)]:
        arguments = list(batch())
        arguments[position][1, 1, ...] = 0
        arguments[position].view(B, -1)[1, -1] = value
        if method == "coupled" and position == 1:
            continue
        with pytest.raises(ValueError, match="(?s)target_logits|draft_logits|draft_tokens"):
            sdo.verify(*arguments, seed=1, method=method, validate=True)


def test_validate_looks_at_every_input_of_a_sequence(sdo):
    for position, value in [(0, NAN), (0, -1.0), (0, 0.0), (1, NAN), (1, 0.0), (2, V), (2, -2)]:
        arguments = list(sequence())
        arguments[position][1] = value
        names = "target_probs|draft_probs|draft_tokens"
        with pytest.raises(ValueError, match=f"accept: ({names}) .*1"):
            sdo.accept(*arguments, validate=True)
        if position != 1 and value not in (0.0, -1.0):
            with pytest.raises(ValueError, match=f"verify_greedy: ({names}) .*1"):
                sdo.verify_greedy(arguments[0], arguments[2], validate=True)
    assert sdo.accept(*sequence(), validate=True)[0] == K


def test_validate_looks_at_shapes_before_values(sdo):
    """Values of a tensor of the wrong shape cannot be named."""
    number = torch.tensor(1.0)
    for call in (
        lambda: sdo.sample(number, validate=True),
        lambda: sdo.filter_logits(number, validate=True),
        lambda: sdo.verify(number, None, number.long(), validate=True),
        lambda: sdo.verify_greedy(number, number.long(), validate=True),
        lambda: sdo.accept(number, None, number.long(), validate=True),
        lambda: sdo.sample(logits(), prev_tokens=number.long(), validate=True),
    ):
        with pytest.raises(RuntimeError, match=", wanted"):
            call()


def test_validate_accepts_what_is_right(sdo):
    previous = torch.zeros(B, 5, dtype=torch.int64)
    fine = bad_row(-INF)
    arguments = {"prev_tokens": previous, "repetition_penalty": 1.2}
    for op in (sdo.sample, sdo.filter_logits):
        a = op(fine, **arguments, **({"seed": 3} if op is sdo.sample else {}))
        b = op(fine, validate=True, **arguments, **({"seed": 3} if op is sdo.sample else {}))
        assert torch.equal(a, b)
    ragged = list(batch())
    ragged[2][0, 1] = -1
    assert torch.equal(
        sdo.verify(*ragged, seed=3)[1], sdo.verify(*ragged, seed=3, validate=True)[1]
    )


def test_a_meta_tensor_among_real_ones_is_refused(sdo):
    logits, meta = torch.randn(2, 3, 99), {"device": "meta"}
    tokens = torch.zeros(2, 2, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="on meta, wanted cpu"):
        sdo.sample(logits[:, 0], top_k=torch.ones(2, dtype=torch.int64, **meta), seed=1)
    with pytest.raises(RuntimeError, match="on meta, wanted cpu"):
        sdo.verify(logits, logits[:, :2].to("meta"), tokens, seed=1)
    with pytest.raises(RuntimeError, match="on meta, wanted cpu"):
        sdo.verify(logits, None, tokens.to("meta"), seed=1)
