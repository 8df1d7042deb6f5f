# SPDX-License-Identifier: Apache-2.0
"""Each op's definition in plain torch: what is computed, not how.

Slow, and equal to the ops up to float rounding. Randomness is an argument everywhere.
"""

import torch


def penalise(logits, repetition_penalty=1.0, prev_tokens=None):
    """Logits of tokens seen before move towards -inf: divided if positive, multiplied if not."""
    x = logits.float()
    if prev_tokens is None:
        return x
    vocab = x.shape[-1]
    ids = prev_tokens.expand(*x.shape[:-1], -1)
    ids = ids.where((ids >= 0) & (ids < vocab), vocab)  # padding goes into one column too many
    seen = torch.zeros(*x.shape[:-1], vocab + 1, dtype=torch.bool, device=x.device)
    seen = seen.scatter(-1, ids, True)[..., :vocab]
    return x.where(~seen, torch.where(x < 0, x * repetition_penalty, x / repetition_penalty))


def filter_logits(
    logits,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    min_p=0.0,
    repetition_penalty=1.0,
    prev_tokens=None,
):
    """[..., V] -> float32 [..., V]: x / temperature where the filters keep x, -inf elsewhere."""
    x = penalise(logits, repetition_penalty, prev_tokens)
    if temperature <= 0:
        best = torch.zeros_like(x, dtype=torch.bool).scatter(-1, x.argmax(-1, keepdim=True), True)
        return x.where(best, -torch.inf)
    x = x / temperature
    if 0 < top_k < x.shape[-1]:
        x = x.where(x >= x.topk(top_k).values[..., -1:], -torch.inf)
    if top_p < 1:
        order = x.argsort(dim=-1, descending=True, stable=True)
        p = x.double().softmax(-1).gather(-1, order)
        before = p.cumsum(-1) - p
        drop = (before >= top_p) & (before > 0)
        x = x.where(~drop.scatter(-1, order, drop), -torch.inf)
    if min_p > 0:
        p = x.double().softmax(-1)
        x = x.where(p >= min(min_p, 1) * p.amax(-1, keepdim=True), -torch.inf)
    return x


def sample(logits, gumbel_noise, temperature=1.0, **filters):
    """The Gumbel-max trick: with G = -log(-log(uniform)), argmax(x + G) follows softmax(x)."""
    x = filter_logits(logits, temperature, **filters)
    return (x if temperature <= 0 else x.double() + gumbel_noise).argmax(-1)


def logprobs(logits, tokens, temperature=1.0, **filters):
    """log p of the tokens under what `sample` draws from, and under softmax(logits): two tensors
    of their shape. logits [..., V], tokens [...], of which -1 has NaN."""
    laws = (filter_logits(logits, temperature, **filters), logits)
    each = (x.double().log_softmax(-1).gather(-1, tokens.clamp(min=0)[..., None]) for x in laws)
    return tuple(x[..., 0].float().masked_fill(tokens < 0, torch.nan) for x in each)


def draw(weights, u):
    """The first token whose running sum exceeds u of the whole; -1 if there is no weight."""
    running = weights.cumsum(-1)
    token = torch.searchsorted(running, u * running[-1:], right=True)
    return int(token) if running[-1] > 0 else -1


def laws(target_probs, draft_probs, draft_tokens):
    """Normalised rows, and how many draft tokens there are before one that is -1 or has q = 0."""
    vocab = target_probs.shape[-1]
    if draft_probs is None:
        ids = torch.arange(vocab, device=target_probs.device)
        draft_probs = (draft_tokens[:, None] == ids).to(target_probs.dtype)
    p = target_probs / target_probs.sum(-1, keepdim=True)
    q = draft_probs / draft_probs.sum(-1, keepdim=True)
    tokens = draft_tokens.tolist()
    drafted = [0 <= t < vocab and q[i, t] > 0 for i, t in enumerate(tokens)]
    return p, q, [*drafted, False].index(False)


def accept(target_probs, draft_probs, draft_tokens, uniforms):
    """Speculative sampling of one sequence: (number accepted, the token that follows them).

    target_probs [K+1, V], draft_probs [K, V] or None, draft_tokens [K], uniforms [K+1] in [0, 1).
    """
    p, q, k = laws(target_probs, draft_probs, draft_tokens)
    for i, t in enumerate(draft_tokens.tolist()[:k]):
        if uniforms[i] * q[i, t] >= p[i, t]:
            residual = (p[i] - q[i]).clamp(min=0)
            return i, draw(residual if residual.any() else p[i], uniforms[-1])
    return k, draw(p[k], uniforms[-1])


def accept_block(target_probs, draft_probs, draft_tokens, uniforms):
    """The same by block verification (Sun et al. 2024): the last of k tests to pass, not the one
    before the first to fail, says how many tokens stand."""
    p, q, k = laws(target_probs, draft_probs, draft_tokens)
    joint = [1.0]  # the chance that the first i tokens stand
    for i, t in enumerate(draft_tokens.tolist()[:k]):
        joint.append(min(1.0, joint[i] * float(p[i, t] / q[i, t])))
    if k == 0 or uniforms[k - 1] < joint[k]:
        return k, draw(p[k], uniforms[-1])
    for i in reversed(range(k)):
        residual = (joint[i] * p[i] - q[i]).clamp(min=0)
        mass = residual.sum()
        if i == 0 or joint[i] == 1 or uniforms[i - 1] * (mass + 1 - joint[i]) < mass:
            return i, draw(residual if mass > 0 else p[i], uniforms[-1])


def verify(
    target_logits,
    draft_logits,
    draft_tokens,
    uniforms,
    temperature=1.0,
    *,
    prev_tokens=None,
    **filters,
):
    """The same from logits, for a batch: (accept_len [B], out [B, k+1] padded with -1).

    target_logits [B, k+1, V], draft_logits [B, k, V] or None, draft_tokens [B, k],
    uniforms [B, k+1], prev_tokens [B, L] or None.
    """
    batch, k = draft_tokens.shape
    # Position i sees prev_tokens and the drafts before it.
    position = torch.arange(k + 1, device=draft_tokens.device)
    earlier = position[:k] < position[:, None]
    history = draft_tokens[:, None].expand(-1, k + 1, -1).where(earlier, -1)
    if prev_tokens is not None:
        history = torch.cat([prev_tokens[:, None].expand(-1, k + 1, -1), history], -1)
    p = filter_logits(target_logits, temperature, prev_tokens=history, **filters).softmax(-1)
    q = [None] * batch
    if draft_logits is not None and temperature > 0:
        history = history[:, :k]
        q = filter_logits(draft_logits, temperature, prev_tokens=history, **filters).softmax(-1)
    accept_len = draft_tokens.new_zeros(batch)
    out = draft_tokens.new_full((batch, k + 1), -1)
    for b in range(batch):
        n, token = accept(p[b], q[b], draft_tokens[b], uniforms[b])
        accept_len[b] = n
        out[b, :n] = draft_tokens[b, :n]
        out[b, n] = token
    return accept_len, out


def verify_greedy(target_probs, draft_tokens):
    """Accept while the draft token is the target's first maximum: (number accepted, next token)."""
    best = target_probs.argmax(-1).tolist()
    for i, t in enumerate(draft_tokens.tolist()):
        if t != best[i]:
            return i, best[i]
    return len(draft_tokens), best[-1]


def eager_verify(target_logits, draft_logits, draft_tokens, temperature=1.0, generator=None):
    """`verify` for a whole batch, as eager torch code does it: what benchmarks compare with."""
    p = (target_logits.float() / temperature).softmax(-1)
    q = (draft_logits.float() / temperature).softmax(-1)
    k = draft_tokens.shape[1]
    at = draft_tokens[..., None]
    u = torch.rand(draft_tokens.shape, generator=generator, device=p.device)
    accepted = u * q.gather(-1, at)[..., 0] < p[:, :k].gather(-1, at)[..., 0]
    accept_len = accepted.long().cumprod(-1).sum(-1)
    row = accept_len[:, None, None].expand(-1, 1, p.shape[-1])
    q = torch.nn.functional.pad(q, (0, 0, 0, 1))  # beside the bonus row stands no draft
    residual = (p.gather(1, row) - q.gather(1, row))[:, 0].clamp(min=0)
    token = residual.multinomial(1, generator=generator)
    position = torch.arange(k + 1, device=p.device)
    out = torch.nn.functional.pad(draft_tokens, (0, 1)).where(position < accept_len[:, None], -1)
    return accept_len, out.scatter(1, accept_len[:, None], token)
