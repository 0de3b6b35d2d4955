"""A write_kv part: minfer's rotation, and a plain loop over the tokens for the write."""

from minfer.norm.torch import rms_norm
from minfer.write_kv.torch import rotate


def write_kv(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps):
    if q_norm is not None and k_norm is not None:
        q, k = rms_norm(q, q_norm, eps), rms_norm(k, k_norm, eps)
    angles = cos.to(q.dtype)[:, None], sin.to(q.dtype)[:, None]
    q, k = rotate(q, *angles), rotate(k, *angles)
    for token, slot in enumerate(slots.tolist()):
        page, place = divmod(slot, kv[0].shape[1])
        kv[0][page, place], kv[1][page, place] = k[token], v[token]
    return q
