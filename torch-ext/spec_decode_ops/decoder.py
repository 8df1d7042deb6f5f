# SPDX-License-Identifier: Apache-2.0
"""SpeculativeDecoder: the draft/verify loop.

In each round a cheap draft proposes up to k tokens, the target model reads them in one forward
pass, and verification keeps the longest prefix that the target agrees with, plus one token of the
target's own. The text is the target's: in greedy mode and under the coupled rule the very tokens
of plain decoding, under the token and block rules the same distribution.
"""

import time
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Optional, Union, overload

import torch

from . import _arguments, _callbacks
from ._callbacks import Draft, Ids, called, own_copy
from ._draft_length import AdaptiveLength, FixedLength
from ._stopping import Stopping
from .stats import DecodeStats
from .verify import accept, verify, verify_greedy

_NAME = "SpeculativeDecoder"

# The prefix is a list or a tensor, as the prompt is: a callback may take one of them only.
DraftStep = Callable[[Any, int], tuple[Union[Sequence[int], torch.Tensor], Optional[torch.Tensor]]]
TargetStep = Callable[[Any, Any], torch.Tensor]


class Committed(NamedTuple):
    """What a round adds to the text, and why the text ends with it: "eos", "stop", "length", or
    None where it goes on."""

    tokens: list[int]
    finish_reason: Optional[str]


@dataclass
class _Call:
    """The state of one call of `generate` or `stream`."""

    prefix: Ids  # the text so far, the prompt included
    max_new: int
    seed: int
    stats: DecodeStats
    length: Union[FixedLength, AdaptiveLength]
    new: list = field(default_factory=list)  # the text without the prompt
    round_offset: int = 0


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
    nothing).

    Caches: after each round the text is the old prefix, the accepted draft tokens and one token
    that no model has read. `target_rollback(length)` and `draft_rollback(length)` are told the
    length of the text without that last token: of what a cache holds beyond it, all was rejected.
    With k tokens accepted of k there is nothing to cut, and a draft that did not read its own last
    token has one token less than `length`. A round that fails is undone: the hooks are told the
    length of its prefix without the last token. So caches are right whenever a stream is left.

    Args:
        k: draft tokens a round, at most; 0 is plain decoding.
        greedy: take the first maximum of each target row, with repetition_penalty of the penalised
            row.
        generator: where randomness comes from: `accept` draws from it (inputs="probs"), or the
            seed is taken from it (inputs="logits"). None: torch's default generator.
        inputs: "probs" or "logits", which both callbacks return.
        method: how sampled tokens are verified. "token" is the ratio test (Leviathan et al. 2023;
            Chen et al. 2023). "block" (Sun et al. 2024) keeps more of a draft in the mean; its
            drafts must be drawn with fresh noise in each round, as noise that belongs to a position
            is used again when the position is drafted again, and biases it. "coupled" (Daliri et
            al. 2024; needs logits): the noise of a token belongs to its position in the text, so
            that the output is, token for token, that of `sample(row, ..., seed=seed,
            offset=position)`, for any draft and k; a draft that samples with the same seed and
            offsets is accepted most often. None: "token" in a round whose draft has `probs`, and in
            all rounds with inputs="probs"; else "coupled".
        temperature, top_k, top_p, min_p, repetition_penalty: those of `sample`, for
            inputs="logits". The token and block rules apply them to both models. The penalty counts
            the prompt, the output and the draft tokens before each position.
        seed: any int, for inputs="logits". None takes a new one at each call.
        draft_token_ids: for inputs="logits", as in `verify`: column j of the draft's logits is
            target token draft_token_ids[j]. Its tokens are target ids all the same.
        eos_token_id: an id or a list of ids. The first one to be emitted is the last token.
        stop: sequences of token ids. The text ends with the first that is complete, if all of it
            is new. Ends come before max_new.
        adaptive_k: draft as many tokens as pay, from 0 to k, by the acceptance and the seconds that
            were measured. While none pays, a draft that costs next to nothing is still called, to
            be compared with the output. Greedy and coupled output does not depend on it; under the
            other rules the same seed may give another text of the same law.
        on_round: called after each round with the draft tokens (list), how many of them became
            output, and the tokens committed (list).
        draft_rollback, target_rollback: called after each round with the length to which the
            model's cache is right.

    `stats` describes the latest call. What a callback raises passes through, with a note that
    names the callback (tracebacks show it from Python 3.11 on); StopIteration becomes a
    RuntimeError, as it would end a stream unnoticed.

    Raises:
        ValueError, TypeError: a parameter, or a combination of them, has no meaning.
    """

    def __init__(
        self,
        draft_step: DraftStep,
        target_step: TargetStep,
        k: int = 4,
        greedy: bool = True,
        generator: Optional[torch.Generator] = None,
        *,
        inputs: Literal["probs", "logits"] = "probs",
        method: Optional[Literal["token", "block", "coupled"]] = None,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: Optional[int] = None,
        eos_token_id: Union[int, list[int], tuple[int, ...], Set[int], None] = None,
        stop: Optional[Sequence[Union[Sequence[int], torch.Tensor]]] = None,
        adaptive_k: bool = False,
        on_round: Optional[Callable[[list[int], int, list[int]], Any]] = None,
        draft_rollback: Optional[Callable[[int], Any]] = None,
        target_rollback: Optional[Callable[[int], Any]] = None,
        draft_token_ids: Optional[torch.Tensor] = None,
    ) -> None:
        _callbacks.check_callable(_NAME, "draft_step", draft_step)
        _callbacks.check_callable(_NAME, "target_step", target_step)
        hooks = {"draft_rollback": draft_rollback, "target_rollback": target_rollback}
        for name, hook in {"on_round": on_round, **hooks}.items():
            _callbacks.check_callable(_NAME, name, hook, optional=True)
        if inputs not in ("probs", "logits"):
            raise ValueError(f'{_NAME}: inputs is {inputs!r}, wanted "probs" or "logits"')
        if method not in (None, "token", "block", "coupled"):
            wanted = '"token", "block", "coupled" or None'
            raise ValueError(f"{_NAME}: method is {method!r}, wanted {wanted}")
        filters: dict[str, Any] = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repetition_penalty": repetition_penalty,
        }
        for name, value in filters.items():
            if isinstance(value, torch.Tensor):
                raise TypeError(f"{_NAME}: {name} is a tensor, wanted a number: there is one row")
        _arguments.chain(_NAME, **filters, prev_tokens=None)

        self.draft_step = draft_step
        self.target_step = target_step
        self.k = _callbacks.count(_NAME, "k", k)
        self.greedy = bool(greedy)
        self.generator = _arguments.generator(_NAME, generator)
        self.inputs = inputs
        self.method = method
        self.filters = filters
        self.seed = None if seed is None else _callbacks.integer(_NAME, "seed", seed)
        if draft_token_ids is not None:
            _arguments.tensor(_NAME, "draft_token_ids", draft_token_ids)
        self.draft_token_ids = draft_token_ids
        self.stopping = Stopping(_NAME, eos_token_id, stop)
        self.adaptive_k = bool(adaptive_k)
        self.on_round = on_round
        self.rollbacks = hooks
        self.stats = DecodeStats()
        self._check_combination()

    @overload
    def generate(self, prompt_ids: list[int], max_new: int = 128) -> list[int]: ...
    @overload
    def generate(self, prompt_ids: torch.Tensor, max_new: int = 128) -> torch.Tensor: ...
    def generate(self, prompt_ids: Ids, max_new: int = 128) -> Ids:
        """The prompt and `max_new` new tokens, or fewer up to and with an end-of-sequence token or
        a stop sequence.

        Returns:
            A new list for a list, a new 1-D tensor of the same dtype and device for a tensor.

        Raises:
            ValueError, TypeError: the prompt is empty or no list or 1-D tensor; a callback returned
                what does not fit (the text names it); a target row holds no token (the text names
                its position).
        """
        prompt = _callbacks.prompt(_NAME, prompt_ids)
        new = [token for tokens, _ in self.stream(prompt, max_new) for token in tokens]
        return _callbacks.extended(prompt, new)

    def stream(self, prompt_ids: Ids, max_new: int = 128) -> Iterator[Committed]:
        """Yields the new tokens of `generate` as (tokens, finish_reason), a list for each round.
        The reason is None but in the last: "eos", "stop" or "length".

        A stream holds its own state: it may be closed at any point, and the next call is none the
        wiser. A bad argument raises here, not at the first token.
        """
        prompt = _callbacks.prompt(_NAME, prompt_ids)
        max_new = _callbacks.count(_NAME, "max_new", max_new)
        self.stats = DecodeStats(finish_reason=None if max_new else "length")
        length = AdaptiveLength(self.k) if self.adaptive_k else FixedLength()
        call = _Call(prompt, max_new, self._seed_of_a_call(), self.stats, length)
        return self._rounds(call)

    def _rounds(self, call: _Call) -> Iterator[Committed]:
        while call.stats.finish_reason is None:
            read = len(call.prefix) - 1
            try:
                yield self._round(call)
            except GeneratorExit:  # the stream is left, after a round that was handed over
                raise
            except BaseException:
                self._roll_back(read)
                raise

    def _round(self, call: _Call) -> Committed:
        start = time.perf_counter()
        # The target adds a token of its own, so the last round needs one draft token less.
        plan = call.length.plan(min(self.k, call.max_new - len(call.new) - 1))
        proposal, draft = self._draft(call.prefix, *plan)
        drafted = time.perf_counter()
        rows = self._target_rows(call.prefix, draft)
        read = time.perf_counter()
        accepted, emitted = self._verify(rows, draft, call)
        verified = time.perf_counter()
        _check_token(emitted[-1], len(call.prefix) + accepted)

        used = len(draft.tokens)
        call.length.add_acceptance(used, accepted)
        call.length.add_times(len(proposal), used, drafted - start, verified - drafted)
        if not plan.use:
            call.length.watch(proposal, emitted)
        end = self.stopping.first_end(call.new, emitted)
        if end is not None:
            emitted = emitted[: end.count]
            accepted = min(accepted, end.count)
        call.prefix = _callbacks.extended(call.prefix, emitted)
        call.new += emitted
        call.round_offset += used + 1
        call.stats.add_round(used, accepted, len(emitted))
        call.stats.add_target_call(start, drafted, read, verified)
        full = "length" if len(call.new) == call.max_new else None
        reason = full if end is None else end.reason

        self._roll_back(len(call.prefix) - 1)
        if self.on_round is not None:
            called("on_round", self.on_round, draft.tokens, accepted, list(emitted))
        call.stats.finish_reason = reason
        return Committed(emitted, reason)

    def _draft(self, prefix: Ids, ask: int, use: int) -> tuple[list[int], Draft]:
        """The tokens the draft was asked for, and what of them the target is to read."""
        if ask <= 0:
            return [], Draft([], None)
        proposal = called("draft_step", self.draft_step, own_copy(prefix), ask)
        draft = _callbacks.draft(proposal, ask)
        rows = draft.rows[:use] if use and draft.rows is not None else None
        return draft.tokens, Draft(draft.tokens[:use], rows)

    def _target_rows(self, prefix: Ids, draft: Draft) -> torch.Tensor:
        proposed = _callbacks.like(prefix, draft.tokens)
        rows = called("target_step", self.target_step, own_copy(prefix), proposed)
        _callbacks.check_rows("target_step", rows, len(draft.tokens) + 1)
        return rows

    def _roll_back(self, length: int) -> None:
        for name, hook in self.rollbacks.items():
            if hook is not None:
                called(name, hook, length)

    def _verify(self, rows: torch.Tensor, draft: Draft, call: _Call) -> tuple[int, list[int]]:
        """How many draft tokens the target accepts; these and the target's own token."""
        tokens = torch.tensor(draft.tokens, dtype=torch.int64, device=rows.device)
        penalised = self.filters["repetition_penalty"] != 1

        if self.greedy and not penalised:
            accepted, token = map(int, verify_greedy(rows, tokens))
            return accepted, [*draft.tokens[:accepted], token]
        if self.inputs == "probs":
            rule: Literal["token", "block"] = "block" if self.method == "block" else "token"
            verdict = accept(rows, draft.rows, tokens, self.generator, method=rule)
            accepted, token = map(int, verdict)
            return accepted, [*draft.tokens[:accepted], token]

        method = self.method or ("coupled" if draft.rows is None else "token")
        if self.greedy:
            method = "coupled"
        coupled = method == "coupled"
        law = None if coupled or draft.rows is None else draft.rows.unsqueeze(0)
        history = None
        if penalised:
            history = torch.as_tensor(call.prefix, dtype=torch.int64, device=rows.device)
        accept_len, out = verify(
            rows.unsqueeze(0),
            law,
            tokens.unsqueeze(0),
            seed=call.seed,
            offset=len(call.prefix) if coupled else call.round_offset,
            prev_tokens=history,
            method=method,
            draft_token_ids=None if law is None else self.draft_token_ids,
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
            if self.draft_token_ids is not None:
                changed.append("draft_token_ids")
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


def _check_token(token: int, position: int) -> None:
    if token < 0:
        raise ValueError(
            f"target_step: the row for position {position} holds no token, "
            "wanted one finite logit or positive probability at least"
        )
