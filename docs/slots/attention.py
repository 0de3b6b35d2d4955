"""An attention part: one sequence after another, its pages gathered, by PyTorch's own attention."""

import torch
import torch.nn.functional as F


def attention(q, kv, batch, scale, window):
    out, first = torch.zeros_like(q), 0
    for row, (new, context) in enumerate(zip(batch.query_lens, batch.contexts, strict=True)):
        at = torch.arange(context, device=q.device)
        pages = batch.block_tables[row, at // kv[0].shape[1]].long()
        keys, values = (cache[pages, at % cache.shape[1]].transpose(0, 1)[None] for cache in kv)
        ago = at[context - new :, None] - at  # how far back each key lies; negative: in the future
        mask = (ago >= 0) & (ago < (window or context + 1))
        queries = q[first : first + new].transpose(0, 1)[None]
        y = F.scaled_dot_product_attention(queries, keys, values, mask, scale=scale, enable_gqa=True)
        out[first : first + new], first = y[0].transpose(0, 1), first + new
    return out
