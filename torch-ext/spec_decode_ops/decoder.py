# SPDX-License-Identifier: Apache-2.0
"""The draft/verify loop of speculative decoding.

In each round a cheap draft proposes up to k tokens, the target model reads them in one forward
pass, and verification keeps the longest prefix that the target agrees with plus one token of the
target's own. The text is the target's: in greedy mode and under the coupled rule the same tokens
as plain decoding, under the token rule the same distribution (Leviathan et al. 2023, Chen et al.
2023; coupled rule: Daliri et al. 2024).
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any, Callable, NamedTuple, Optional, Union

import torch

from .verify import accept, verify, verify_greedy

Ids = Union[list[int], torch.Tensor]
DraftStep = Callable[[Ids, int], tuple[Ids, Optional[torch.Tensor]]]
TargetStep = Callable[[Ids, Ids], torch.Tensor]
OnRound = Callable[[list[int], int, list[int]], Any]

_NEUTRAL = {
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}


@dataclass
class DecodeStats:
    """What one `generate` or `stream` did. Seconds are wall-clock time on the calling thread;
    work that a callback leaves queued on a GPU is counted where its result is waited for."""

    rounds: int = 0
    drafted: int = 0
    """Draft tokens that the target read."""
    accepted: int = 0
    """Draft tokens that became output; those behind an end-of-sequence token do not count."""
    emitted: int = 0
    """Tokens of output, prompt excluded."""
    target_calls: int = 0
    accepted_lengths: Counter = field(default_factory=Counter)
    """Rounds by the number of draft tokens accepted in them."""
    draft_seconds: float = 0.0
    target_seconds: float = 0.0
    verify_seconds: float = 0.0

    @property
    def tokens_per_target_call(self) -> float:
        """Emitted tokens a target call; plain decoding has 1. 0 before the first call."""
        return self.emitted / self.target_calls if self.target_calls else 0.0


class _Draft(NamedTuple):
    """A round's proposal: n tokens, and the draft's [n, V'] rows if it is not deterministic."""

    tokens: list[int]
    rows: Optional[torch.Tensor]


class SpeculativeDecoder:
    """Drives a draft and a target model through rounds of speculative decoding, one sequence at a
    time. The models are two callbacks, so any pair composes.

    `draft_step(prefix, k) -> (tokens, probs)` proposes up to `k` next tokens: a list or 1-D
    integer tensor, shorter or empty if it likes; ids from the first negative one on are dropped.
    `probs` [len(tokens), V'] are the rows the tokens were drawn from (probabilities, or logits
    with `inputs="logits"`), with V' at most the target's V; None says that the draft is
    deterministic (n-gram lookup, greedy). It is not called when no draft token could be used.

    `target_step(prefix, proposed) -> rows` runs the target once and returns
    [len(proposed) + 1, V]: row i is the next-token row after `prefix + proposed[:i]`; float32,
    float16 or bfloat16, probabilities or logits as `inputs` says.

    Both get `prefix` (and `proposed`) as the kind the prompt was: lists of int, or 1-D tensors
    of its dtype on its device. These are the callbacks' own copies. `prefix` always ends with a
    token that the target has not read yet, and everything before it has been read or is part of
    the prompt: a KV cache is right once it is cut to len(prefix) - 1 entries.

    Arguments:
      k: draft tokens a round, at most; 0 is plain decoding.
      greedy: take the target's most likely token (first one among equals). With
        `repetition_penalty` this is the most likely token of the penalised row, which needs
        `inputs="logits"`.
      generator: source of randomness. With probabilities, `accept` draws from it; with logits
        the seed is taken from it, if no `seed` is given. None: torch's default generator.
      inputs: "probs" or "logits", what both callbacks return.
      method: the rule for sampling. "token": the ratio test, which keeps the distribution.
        "coupled" (logits only): the noise of a token belongs to its position in the text, so the
        output equals `sample(row, ..., seed=seed, offset=position)` token for token, whatever
        the draft and k; draft rows are not read. None: "token" in rounds where the draft
        returned rows, and "coupled" (with probabilities: "token") in the others.
      temperature, top_k, top_p, min_p, repetition_penalty: as in `sample`, Python numbers, for
        logits only. The token rule applies them to both models. The penalty covers prompt,
        output and the draft tokens before each position.
      seed: any int. None: one is taken at the start of each call.
      eos_token_id: an id or a list of ids that end the text; the id itself is kept.
      on_round: called after each round with the list of draft tokens, how many of them became
        output, and the list of tokens committed.

    A callback's own exception passes through unchanged. `stats` describes the latest call.
    """

    def __init__(
        self,
        draft_step: DraftStep,
        target_step: TargetStep,
        k: int = 4,
        greedy: bool = True,
        generator: Optional[torch.Generator] = None,
        *,
        inputs: str = "probs",
        method: Optional[str] = None,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: Optional[int] = None,
        eos_token_id: Union[int, Sequence[int], None] = None,
        on_round: Optional[OnRound] = None,
    ):
        for name, callback in (("draft_step", draft_step), ("target_step", target_step)):
            if not callable(callback):
                raise TypeError(f"{name} must be callable, got {type(callback).__name__}")
        if on_round is not None and not callable(on_round):
            raise TypeError(f"on_round must be callable or None, got {type(on_round).__name__}")
        if inputs not in ("probs", "logits"):
            raise ValueError(f'inputs must be "probs" or "logits", got {inputs!r}')
        if method not in (None, "token", "coupled"):
            raise ValueError(f'method must be None, "token" or "coupled", got {method!r}')

        self.draft_step = draft_step
        self.target_step = target_step
        self.k = _count("k", k)
        self.greedy = bool(greedy)
        self.generator = generator
        self.inputs = inputs
        self.method = method
        self.filters = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repetition_penalty": repetition_penalty,
        }
        self.seed = None if seed is None else _integer("seed", seed)
        self.eos_token_ids = _eos_ids(eos_token_id)
        self.on_round = on_round
        self.stats = DecodeStats()
        self._check_combination()

    def generate(self, prompt_ids: Ids, max_new: int = 128) -> Ids:
        """The prompt and up to `max_new` new tokens, fewer only if the text ends at
        `eos_token_id`; a list for a list, a new 1-D tensor (same dtype and device) for a tensor.

        Raises ValueError for an empty prompt, for callbacks whose results do not fit (naming the
        callback), and where the target gives no token (an empty row), naming the position.
        """
        prompt = _checked_prompt(prompt_ids)
        new = [token for tokens in self.stream(prompt, max_new) for token in tokens]
        return _extended(prompt, new)

    def stream(self, prompt_ids: Ids, max_new: int = 128) -> Iterator[list[int]]:
        """Yields, round by round, the list of tokens that the round committed: the new tokens of
        `generate`. Each stream holds its own state, so it may be closed at any point, and the
        next call starts afresh. Bad arguments raise here, not at the first token."""
        prompt = _checked_prompt(prompt_ids)
        max_new = _count("max_new", max_new)
        self.stats = DecodeStats()
        return self._rounds(prompt, max_new, self._new_seed(), self.stats)

    def _rounds(
        self, prefix: Ids, max_new: int, seed: int, stats: DecodeStats
    ) -> Iterator[list[int]]:
        token_offset = 0  # noise of the token rule: a round of k drafts uses up k + 1 offsets
        while stats.emitted < max_new:
            # The target adds one token of its own, so a longer draft could not be used.
            k = min(self.k, max_new - stats.emitted - 1)

            start = time.perf_counter()
            draft = self._propose(prefix, k) if k > 0 else _Draft([], None)
            drafted = time.perf_counter()
            rows = self._read(prefix, draft.tokens)
            read = time.perf_counter()
            accepted, emitted = self._verify(rows, draft, prefix, seed, token_offset)
            verified = time.perf_counter()

            if emitted[-1] < 0:
                position = len(prefix) + accepted
                raise ValueError(
                    f"target_step: the row for position {position} holds no possible token (all "
                    "NaN, -inf or zero); want a token with a probability above zero in each row"
                )
            ended = next((i for i, t in enumerate(emitted) if t in self.eos_token_ids), None)
            if ended is not None:
                emitted = emitted[: ended + 1]
                accepted = min(accepted, len(emitted))

            prefix = _extended(prefix, emitted)
            token_offset += len(draft.tokens) + 1
            stats.rounds += 1
            stats.target_calls += 1
            stats.drafted += len(draft.tokens)
            stats.accepted += accepted
            stats.emitted += len(emitted)
            stats.accepted_lengths[accepted] += 1
            stats.draft_seconds += drafted - start
            stats.target_seconds += read - drafted
            stats.verify_seconds += verified - read
            if self.on_round is not None:
                self.on_round(draft.tokens, accepted, list(emitted))
            yield emitted
            if ended is not None:
                return

    def _propose(self, prefix: Ids, k: int) -> _Draft:
        """Asks the draft for up to k tokens and checks what comes back."""
        result = self.draft_step(_own_copy(prefix), k)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeError(
                f"draft_step must return (tokens, probs), got {type(result).__name__}"
                + (f" of length {len(result)}" if isinstance(result, (tuple, list)) else "")
            )
        tokens, rows = _id_list("draft_step", result[0]), result[1]
        if len(tokens) > k:
            raise ValueError(f"draft_step returned {len(tokens)} tokens, want at most k = {k}")
        if rows is not None:
            _check_rows("draft_step", rows, len(tokens))
        used = next((i for i, token in enumerate(tokens) if token < 0), len(tokens))
        return _Draft(tokens[:used], None if rows is None else rows[:used])

    def _read(self, prefix: Ids, proposed: list[int]) -> torch.Tensor:
        """Runs the target over the proposal and checks what comes back."""
        rows = self.target_step(_own_copy(prefix), _like(prefix, proposed))
        _check_rows("target_step", rows, len(proposed) + 1)
        return rows

    def _verify(
        self, rows: torch.Tensor, draft: _Draft, prefix: Ids, seed: int, token_offset: int
    ) -> tuple[int, list[int]]:
        """How many draft tokens the target accepts, and these plus the target's own token."""
        tokens = torch.tensor(draft.tokens, dtype=torch.int64, device=rows.device)
        penalised = self.filters["repetition_penalty"] != 1.0

        if self.greedy and not penalised:
            accepted, token = verify_greedy(rows, tokens)
        elif self.inputs == "probs":
            accepted, token = accept(rows, draft.rows, tokens, self.generator)
        else:
            method = self.method or ("coupled" if draft.rows is None else "token")
            coupled = self.greedy or method == "coupled"
            history = torch.as_tensor(prefix, dtype=torch.int64, device=rows.device)
            filters = dict(self.filters, temperature=0.0) if self.greedy else self.filters
            lengths, out = verify(
                rows.unsqueeze(0),
                None if coupled or draft.rows is None else draft.rows.unsqueeze(0),
                tokens.unsqueeze(0),
                seed=seed,
                offset=len(prefix) if coupled else token_offset,
                prev_tokens=history if penalised else None,
                method="coupled" if coupled else "token",
                **filters,
            )
            accepted = int(lengths[0])
            return accepted, out[0, : accepted + 1].tolist()

        accepted = int(accepted)
        return accepted, draft.tokens[:accepted] + [int(token)]

    def _new_seed(self) -> int:
        """The noise key of one call. Only sampling from logits draws one from a generator."""
        if self.seed is not None:
            return self.seed
        if self.greedy or self.inputs == "probs":
            return 0
        device = "cpu" if self.generator is None else self.generator.device
        return int(torch.randint(2**63 - 1, (), generator=self.generator, device=device))

    def _check_combination(self) -> None:
        changed = [name for name, off in _NEUTRAL.items() if self.filters[name] != off]
        if self.inputs == "probs":
            if changed:
                name = changed[0]
                raise ValueError(
                    f'{name}={self.filters[name]!r} needs inputs="logits": probabilities are taken '
                    "as they come"
                )
            if self.method == "coupled":
                raise ValueError('method="coupled" needs inputs="logits", got inputs="probs"')
            if self.seed is not None and not self.greedy:
                raise ValueError(
                    'seed needs inputs="logits"; probabilities are sampled with generator='
                )
        if self.greedy and "temperature" in changed and self.filters["temperature"] > 0:
            raise ValueError(
                f"temperature={self.filters['temperature']!r} has no meaning with greedy=True; "
                "pass greedy=False to sample"
            )
        if self.seed is not None and self.generator is not None:
            raise ValueError("seed and generator were both given, want at most one of them")


def _integer(name: str, value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got bool")
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {type(value).__name__}") from None


def _count(name: str, value: Any) -> int:
    value = _integer(name, value)
    if value < 0:
        raise ValueError(f"{name} must be 0 or more, got {value}")
    return value


def _eos_ids(value: Union[int, Sequence[int], None]) -> frozenset:
    if value is None:
        return frozenset()
    if isinstance(value, (list, tuple, set, frozenset)):
        return frozenset(_integer("eos_token_id", each) for each in value)
    return frozenset([_integer("eos_token_id", value)])


def _checked_prompt(ids: Ids) -> Ids:
    if isinstance(ids, torch.Tensor):
        if ids.dim() != 1 or ids.is_floating_point() or ids.is_complex():
            raise ValueError(
                f"prompt_ids must be a list of int or a 1-D integer tensor, got shape "
                f"{list(ids.shape)} of {ids.dtype}"
            )
    elif isinstance(ids, list):
        ids = [_integer("prompt_ids[...]", each) for each in ids]
    else:
        raise TypeError(
            f"prompt_ids must be a list of int or a 1-D integer tensor, got {type(ids).__name__}"
        )
    if len(ids) == 0:
        raise ValueError("prompt_ids is empty, want at least one token")
    return ids


def _id_list(callback: str, ids: Any) -> list[int]:
    if isinstance(ids, torch.Tensor):
        if ids.dim() != 1 or ids.is_floating_point() or ids.is_complex():
            raise ValueError(
                f"{callback} returned tokens of shape {list(ids.shape)} and {ids.dtype}, want a "
                "list of int or a 1-D integer tensor"
            )
        return ids.tolist()
    if not isinstance(ids, (list, tuple)):
        raise TypeError(
            f"{callback} returned tokens as {type(ids).__name__}, want a list of int or a 1-D "
            "integer tensor"
        )
    return [_integer(f"{callback}'s tokens", each) for each in ids]


def _check_rows(callback: str, rows: Any, count: int) -> None:
    if not isinstance(rows, torch.Tensor):
        raise TypeError(
            f"{callback} returned rows as {type(rows).__name__}, want a tensor [{count}, vocab]"
        )
    if rows.dim() != 2 or rows.shape[0] != count:
        raise ValueError(
            f"{callback} returned rows of shape {list(rows.shape)}, want [{count}, vocab]"
        )


def _own_copy(ids: Ids) -> Ids:
    return ids.clone() if isinstance(ids, torch.Tensor) else list(ids)


def _like(prefix: Ids, ids: list[int]) -> Ids:
    if isinstance(prefix, torch.Tensor):
        return torch.tensor(ids, dtype=prefix.dtype, device=prefix.device)
    return list(ids)


def _extended(prefix: Ids, ids: list[int]) -> Ids:
    if isinstance(prefix, torch.Tensor):
        return torch.cat([prefix, _like(prefix, ids)])
    return prefix + ids
