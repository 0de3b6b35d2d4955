"""How many K/V blocks fit in memory, once the weights are loaded."""

from __future__ import annotations

import psutil
import torch

from minfer.errors import MinferError

MIB = 2**20
COPIED_TOKENS = 65536  # K and V that attention.triton_paged copies out of their pages at once, at most


def num_blocks(config, block_size: int) -> int:
    """K/V blocks to allocate, the padding block included.

    `config.num_kv_blocks` decides if it is given. Otherwise the blocks fill `config.memory_share` of the device's memory, less what
    is in use (weights, other processes) and what one step's activations take; on a CPU, that share of the memory now free. Never
    more than max_num_seqs sequences of max_model_len tokens could use.

    Raises:
        MinferError: not one sequence's block fits; the message has the numbers.
    """
    block_bytes = block_size * config.model.kv_bytes_per_token(config.dtype)
    wanted = config.num_kv_blocks or config.max_num_seqs * -(-config.max_model_len // block_size)
    budget, explanation = _budget(config)
    fits = budget // block_bytes - 1
    by_number = config.num_kv_blocks is not None
    if fits < 1 or (by_number and fits < wanted):
        need = (wanted if by_number else 1) + 1
        remedies = [] if by_number and config.device.type == "cpu" else ["raise memory_share"]
        remedies += ["lower num_kv_blocks" if by_number else "lower max_model_len", "free memory that other programs hold"]
        raise MinferError(
            f"too little memory for the KV cache: {need} blocks of {block_size} tokens need {need * block_bytes / MIB:.1f} MiB, and "
            f"{max(budget, 0) / MIB:.1f} MiB are available ({explanation}); {', or '.join(remedies)}"
        )
    return min(wanted, fits) + 1


def check_host_blocks(config, block_size: int) -> None:
    """Refuse more host blocks for preemption.swap than the host's memory could hold.

    Raises:
        MinferError: with the numbers.
    """
    need = config.num_host_blocks * block_size * config.model.kv_bytes_per_token(config.dtype)
    free = psutil.virtual_memory().available
    if need > free:
        raise MinferError(
            f"too little memory for swapped K/V: {config.num_host_blocks} host blocks of {block_size} tokens need "
            f"{need / MIB:.1f} MiB, and {free / MIB:.1f} MiB of the host's memory are free; lower num_host_blocks"
        )


def _budget(config) -> tuple[int, str]:
    """Bytes for K/V, and how they were found."""
    if config.device.type != "cuda":
        free = psutil.virtual_memory().available
        if config.num_kv_blocks is not None:  # asked for by number: the share does not count
            return free, "all that is free"
        return int(free * config.memory_share), f"memory_share={config.memory_share} of {free / MIB:.0f} MiB free"
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(config.device)
    activations = _activation_bytes(config)
    budget = int(total * config.memory_share) - (total - free) - activations
    return budget, (
        f"memory_share={config.memory_share} of {total / MIB:.0f} MiB, less {(total - free) / MIB:.0f} MiB in use "
        f"and {activations / MIB:.0f} MiB for activations"
    )


def _activation_bytes(config) -> int:
    """An upper estimate for one step: the widest layer's values a few times over, and float32 logits with their sorted copy."""
    model = config.model
    per_token = 4 * model.intermediate_size + 6 * model.hidden_size + 4 * model.num_heads * model.head_dim
    logits = config.max_num_seqs * model.vocab_size * 4 * 4
    head = 1 << (model.head_dim - 1).bit_length()
    copied = 2 * max(COPIED_TOKENS, config.max_model_len) * model.num_kv_heads * head
    return (config.max_num_batched_tokens * per_token + copied) * config.dtype.itemsize + logits
