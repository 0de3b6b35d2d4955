"""Randomness that depends on (seed, position, token id) and on nothing else.

From: the seeds and positions of the sampled rows. To: `sample`, which adds it to the scaled logits.

A counter-based generator: instead of a state that advances, a hash of *where* the number is needed. So a row's tokens depend
neither on its batch mates nor on when it was computed, and a preempted sequence draws the same numbers again. Everything is
32-bit integer arithmetic (multiply, exclusive or, shift), the same on every device, and short enough for a GPU kernel.
"""

from __future__ import annotations

import torch

# Two rounds of xorshift-multiply: Chris Wellons' "lowbias32" (github.com/skeeto/hash-prospector, public domain).
MULTIPLY_1 = 0x7FEB352D
MULTIPLY_2 = 0x846CA68B - 2**32  # as a signed 32-bit number, since torch's unsigned types do no arithmetic
WORD = 2**32 - 1
START = 0x9E3779B9  # the golden ratio's bits: `mix` leaves 0 as it is, and seed 0 must be a seed like any other


def mix(x: torch.Tensor) -> torch.Tensor:
    """A bijection of 32-bit words that scatters neighbouring inputs: int32 of any shape, changed in place and returned."""
    x ^= (x >> 16).bitwise_and_(0xFFFF)  # the mask makes torch's arithmetic shift a logical one
    x *= MULTIPLY_1
    x ^= (x >> 15).bitwise_and_(0x1FFFF)
    x *= MULTIPLY_2
    x ^= (x >> 16).bitwise_and_(0xFFFF)
    return x


def random_words(seeds: torch.Tensor, positions: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """seeds [S] int64, positions [S] int64 → 32 random bits per token, [S, V] int32.

    A row's key chains both halves of the seed and the position. Tokens are hashed before they meet the key, so that two rows
    whose keys differ in a few low bits are no reordering of each other.
    """
    key = mix((seeds & WORD ^ START).to(torch.int32))
    key = mix(key ^ (seeds >> 32).to(torch.int32))
    key = mix(key ^ (positions & WORD).to(torch.int32))
    tokens = mix(torch.arange(vocab_size, dtype=torch.int32, device=seeds.device))
    return mix(key[:, None] ^ tokens)


def log_arrivals(seeds: torch.Tensor, positions: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """The logarithm of a standard exponential variate E per token → [S, V] float32, always finite.

    E / p is the time at which a token of probability p arrives, and a token is first with probability p (the exponential race,
    the same as the Gumbel-max trick: -log E is a Gumbel variate). E = -log(1 - v) with v uniform in (0, 1). The winners have
    a small E, and there `log1p` keeps all 32 bits.
    """
    words = random_words(seeds, positions, vocab_size)
    v = words.view(torch.uint32).to(torch.float32).add_(0.5).mul_(2.0**-32)
    v.clamp_(max=1 - 2.0**-24)  # the largest float32 below 1: near the top, v would round to 1 and E to infinity
    return v.neg_().log1p_().neg_().log_()


def derive_seed(seed: int, index: int) -> int:
    """The seed of a request's completion `index`; the first keeps the request's own. Signed 64-bit in, signed 64-bit out.

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): the finaliser of SplitMix64.
    """
    if index == 0:
        return seed
    z = (seed + index * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    z ^= z >> 31
    return z - 2**64 if z >= 2**63 else z
