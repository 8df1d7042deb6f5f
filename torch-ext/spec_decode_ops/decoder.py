# SPDX-License-Identifier: Apache-2.0
"""SpeculativeDecoder: the draft/verify loop.

In each round a cheap draft proposes up to k tokens, the target model reads them in one forward
pass, and verification keeps the longest prefix that the target agrees with, plus one token of the
target's own. The text is the target's: in greedy mode and under the coupled rule the very tokens
of plain decoding, under the token rule the same distribution.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from . import _arguments, _callbacks
from ._callbacks import Draft, Ids, called, own_copy
from .verify import accept, verify, verify_greedy

_NAME = "SpeculativeDecoder"


@dataclass
class DecodeStats:
    """What one call of `generate` or `stream` did.

    Seconds are wall-clock time on the calling thread: work that a callback leaves queued on a GPU
    counts where its result is waited for.
    """

    rounds: int = 0
    drafted: int = 0  # draft tokens that the target read
    accepted: int = 0  # draft tokens that became output
    emitted: int = 0  # tokens of output, without the prompt
    target_calls: int = 0
    accepted_lengths: Counter = field(default_factory=Counter)  # rounds by `accepted` in them
    draft_seconds: float = 0.0
    target_seconds: float = 0.0
    verify_seconds: float = 0.0

    @property
    def tokens_per_target_call(self) -> float:
        """1 in plain decoding; 0 before the first call."""
        return self.emitted / self.target_calls if self.target_calls else 0.0


class SpeculativeDecoder:
    """Drives a draft and a target model through rounds of speculative decoding of one sequence.

    The models are callbacks, so that any pair composes:

    `draft_step(prefix, k) -> (tokens, probs)` proposes up to k next tokens, as a list or 1-D
    integer tensor; fewer or none will do, and ids from the first negative one on are dropped.
    `probs` [len(tokens), V'] is what the tokens were drawn from, V' <= V: probabilities, or logits
    with inputs="logits". None says that the draft is deterministic (n-gram, greedy). It is not
    called where no draft token could be used.

    `target_step(prefix, proposed) -> target_probs` runs the target once and returns
    [len(proposed) + 1, V], float32, float16 or bfloat16: row i is for the token that follows
    prefix + proposed[:i]. Probabilities, or logits with inputs="logits".

    Both are given ids as the kind that the prompt is, list or tensor, in copies of their own. The
    target has read all of `prefix` in earlier rounds but its last token (in the first round:
    nothing). What a KV cache holds beyond len(prefix) - 1 tokens was rejected: cut it there.

    Args:
        k: draft tokens a round, at most; 0 is plain decoding.
        greedy: take the first maximum of each target row, with repetition_penalty of the penalised
            row.
        generator: where randomness comes from: `accept` draws from it (inputs="probs"), or the
            seed is taken from it (inputs="logits"). None: torch's default generator.
        inputs: "probs" or "logits", which both callbacks return.
        method: how sampled tokens are verified. "token" is the ratio test (Leviathan et al. 2023;
            Chen et al. 2023). "coupled" (Daliri et al. 2024; needs logits): the noise of a token
            belongs to its position in the text, so that the output is, token for token, that of
            `sample(row, ..., seed=seed, offset=position)`, for any draft and k; a draft that
            samples with the same seed and offsets is accepted most often. None: "token" in a round
            whose draft has `probs`, and in all rounds with inputs="probs"; else "coupled".
        temperature, top_k, top_p, min_p, repetition_penalty: those of `sample`, for
            inputs="logits". The token rule applies them to both models. The penalty counts the
            prompt, the output and the draft tokens before each position.
        seed: any int, for inputs="logits". None takes a new one at each call.
        eos_token_id: an id or a list of ids. The first one to be emitted is the last token.
        on_round: called after each round with the draft tokens (list), how many of them became
            output, and the tokens committed (list).

    `stats` describes the latest call. What a callback raises passes through unchanged, but for
    StopIteration, which becomes a RuntimeError, as it would end a stream unnoticed.

    Raises:
        ValueError, TypeError: a parameter, or a combination of them, has no meaning.
    """

    def __init__(
        self,
        draft_step,
        target_step,
        k=4,
        greedy=True,
        generator=None,
        *,
        inputs="probs",
        method=None,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        min_p=0.0,
        repetition_penalty=1.0,
        seed=None,
        eos_token_id=None,
        on_round=None,
    ):
        for name, callback in (("draft_step", draft_step), ("target_step", target_step)):
            if not callable(callback):
                raise TypeError(f"{_NAME}: {name} is {callback!r}, wanted a callable")
        if on_round is not None and not callable(on_round):
            raise TypeError(f"{_NAME}: on_round is {on_round!r}, wanted a callable or None")
        if inputs not in ("probs", "logits"):
            raise ValueError(f'{_NAME}: inputs is {inputs!r}, wanted "probs" or "logits"')
        if method not in (None, "token", "coupled"):
            raise ValueError(f'{_NAME}: method is {method!r}, wanted "token", "coupled" or None')
        filters = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repetition_penalty": repetition_penalty,
        }
        for name, value in filters.items():
            if isinstance(value, torch.Tensor):
                raise TypeError(f"{_NAME}: {name} is a tensor, wanted a number: there is one row")
        _arguments.filters(_NAME, *filters.values(), None)

        self.draft_step = draft_step
        self.target_step = target_step
        self.k = _callbacks.count(_NAME, "k", k)
        self.greedy = bool(greedy)
        self.generator = _arguments.generator(_NAME, generator)
        self.inputs = inputs
        self.method = method
        self.filters = filters
        self.seed = None if seed is None else _callbacks.integer(_NAME, "seed", seed)
        self.eos_token_ids = _eos_token_ids(eos_token_id)
        self.on_round = on_round
        self.stats = DecodeStats()
        self._check_combination()

    def generate(self, prompt_ids: Ids, max_new: int = 128) -> Ids:
        """The prompt and `max_new` new tokens, or fewer up to and with an end-of-sequence token.

        Returns:
            A new list for a list, a new 1-D tensor of the same dtype and device for a tensor.

        Raises:
            ValueError, TypeError: the prompt is empty or no list or 1-D tensor; a callback returned
                what does not fit (the text names it); a target row holds no token (the text names
                its position).
        """
        prompt = _callbacks.prompt(_NAME, prompt_ids)
        new = [token for tokens in self.stream(prompt, max_new) for token in tokens]
        return _callbacks.extended(prompt, new)

    def stream(self, prompt_ids: Ids, max_new: int = 128) -> Iterator[list[int]]:
        """Yields the new tokens of `generate`, a list for each round.

        A stream holds its own state: it may be closed at any point, and the next call is none the
        wiser. A bad argument raises here, not at the first token.
        """
        prompt = _callbacks.prompt(_NAME, prompt_ids)
        max_new = _callbacks.count(_NAME, "max_new", max_new)
        self.stats = DecodeStats()
        return self._rounds(prompt, max_new, self._seed_of_a_call(), self.stats)

    def _rounds(self, prefix: Ids, max_new: int, seed: int, stats: DecodeStats):
        token_rule_offset = 0
        while stats.emitted < max_new:
            # The target adds a token of its own, so the last round needs one draft token less.
            k = min(self.k, max_new - stats.emitted - 1)

            start = time.perf_counter()
            draft = Draft([], None)
            if k > 0:
                proposal = called("draft_step", self.draft_step, own_copy(prefix), k)
                draft = _callbacks.draft(proposal, k)
            drafted = time.perf_counter()
            proposed = _callbacks.like(prefix, draft.tokens)
            rows = called("target_step", self.target_step, own_copy(prefix), proposed)
            _callbacks.check_rows("target_step", rows, len(draft.tokens) + 1)
            read = time.perf_counter()
            accepted, emitted = self._verify(rows, draft, prefix, seed, token_rule_offset)
            verified = time.perf_counter()

            if emitted[-1] < 0:
                raise ValueError(
                    f"target_step: the row for position {len(prefix) + accepted} holds no token, "
                    "wanted one finite logit or positive probability at least"
                )
            end = next((i for i, t in enumerate(emitted) if t in self.eos_token_ids), None)
            if end is not None:
                emitted = emitted[: end + 1]
                accepted = min(accepted, len(emitted))

            prefix = _callbacks.extended(prefix, emitted)
            token_rule_offset += len(draft.tokens) + 1
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
                called("on_round", self.on_round, draft.tokens, accepted, list(emitted))
            yield emitted
            if end is not None:
                return

    def _verify(
        self, rows: torch.Tensor, draft: Draft, prefix: Ids, seed: int, token_rule_offset: int
    ) -> tuple[int, list[int]]:
        """How many draft tokens the target accepts; these and the target's own token."""
        tokens = torch.tensor(draft.tokens, dtype=torch.int64, device=rows.device)
        penalised = self.filters["repetition_penalty"] != 1

        if self.greedy and not penalised:
            accepted, token = map(int, verify_greedy(rows, tokens))
            return accepted, [*draft.tokens[:accepted], token]
        if self.inputs == "probs":
            accepted, token = map(int, accept(rows, draft.rows, tokens, self.generator))
            return accepted, [*draft.tokens[:accepted], token]

        method = self.method or ("coupled" if draft.rows is None else "token")
        coupled = self.greedy or method == "coupled"
        history = None
        if penalised:
            history = torch.as_tensor(prefix, dtype=torch.int64, device=rows.device)
        accept_len, out = verify(
            rows.unsqueeze(0),
            None if coupled or draft.rows is None else draft.rows.unsqueeze(0),
            tokens.unsqueeze(0),
            seed=seed,
            offset=len(prefix) if coupled else token_rule_offset,
            prev_tokens=history,
            method="coupled" if coupled else "token",
            **(dict(self.filters, temperature=0.0) if self.greedy else self.filters),
        )
        accepted = int(accept_len[0])
        return accepted, out[0, : accepted + 1].tolist()

    def _seed_of_a_call(self) -> int:
        if self.seed is not None:
            return self.seed
        if self.greedy or self.inputs == "probs":
            return 0  # not read
        device = "cpu" if self.generator is None else self.generator.device
        return int(torch.randint(2**63 - 1, (), generator=self.generator, device=device))

    def _check_combination(self) -> None:
        off = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "repetition_penalty": 1}
        changed = [name for name, value in off.items() if self.filters[name] != value]
        if self.seed is not None and self.generator is not None:
            raise ValueError(f"{_NAME}: seed and generator are given, wanted one of them at most")
        if self.inputs == "probs":
            if self.method == "coupled":
                changed.append("method")
            if self.seed is not None and not self.greedy:
                changed.append("seed")
            if changed:
                raise ValueError(
                    f'{_NAME}: {changed[0]} is given with inputs="probs", wanted inputs="logits" '
                    "(probabilities are sampled as they are, with `generator`)"
                )
        if self.greedy and "temperature" in changed and self.filters["temperature"] > 0:
            raise ValueError(
                f"{_NAME}: temperature is {self.filters['temperature']} with greedy=True, wanted "
                "greedy=False to sample"
            )


def _eos_token_ids(ids) -> frozenset:
    if ids is None:
        return frozenset()
    if not isinstance(ids, (list, tuple, set, frozenset)):
        ids = [ids]
    return frozenset(_callbacks.integer(_NAME, "eos_token_id", each) for each in ids)
