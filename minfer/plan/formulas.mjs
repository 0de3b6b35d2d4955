// Bytes and FLOPs of a decoder, and the least time that a card needs for them: minfer/plan/formulas.py in JavaScript, for calculators on
// a page. That file says what is counted and what is not. shape: {vocab_size, hidden_size, intermediate_size, num_layers, num_heads,
// num_kv_heads, head_dim, tied}; card: {memory_gib, bandwidth, flops}, as in cards.json.

export function layerWeights(shape) {
  const attention = shape.hidden_size * shape.head_dim * (2 * shape.num_heads + 2 * shape.num_kv_heads);
  return shape.num_layers * (attention + 3 * shape.hidden_size * shape.intermediate_size);
}

export function headWeights(shape) {
  return shape.vocab_size * shape.hidden_size;
}

export function weightBytes(shape, itemsize, tp = 1) {
  return (itemsize * (layerWeights(shape) + headWeights(shape) * (shape.tied ? 1 : 2))) / tp;
}

/** Throws a RangeError where the heads cannot be divided among so many cards. */
export function kvHeadsPerCard(shape, tp) {
  if (tp < 1 || shape.num_heads % tp || (shape.num_kv_heads % tp && tp % shape.num_kv_heads)) {
    throw new RangeError(`tp=${tp} does not divide ${shape.num_heads} query heads and ${shape.num_kv_heads} K/V heads evenly`);
  }
  return Math.max(Math.floor(shape.num_kv_heads / tp), 1);
}

export function kvBytesPerToken(shape, itemsize, tp = 1) {
  return 2 * shape.num_layers * kvHeadsPerCard(shape, tp) * shape.head_dim * itemsize;
}

export function numSequences(shape, card, itemsize, context, blockSize = 16, share = 0.9, tp = 1) {
  const room = share * card.memory_gib * 2 ** 30 - weightBytes(shape, itemsize, tp);
  const blocks = Math.max(Math.floor(room / (blockSize * kvBytesPerToken(shape, itemsize, tp))) - 1, 0);
  return Math.floor(blocks / Math.ceil(context / blockSize));
}

export function attentionFlops(shape, pairs) {
  return 4 * shape.num_layers * shape.num_heads * shape.head_dim * pairs;
}

export function prefillFlops(shape, tokens) {
  return 2 * layerWeights(shape) * tokens + attentionFlops(shape, (tokens * (tokens + 1)) / 2) + 2 * headWeights(shape);
}

export function decodeFlops(shape, batch, context) {
  return batch * (2 * (layerWeights(shape) + headWeights(shape)) + attentionFlops(shape, context));
}

export function decodeBytes(shape, itemsize, batch, context, tp = 1) {
  const weights = (itemsize * (layerWeights(shape) + headWeights(shape))) / tp;
  return weights + batch * context * kvBytesPerToken(shape, itemsize, tp);
}

export function decodeSeconds(shape, card, itemsize, batch, context, tp = 1) {
  const memory = decodeBytes(shape, itemsize, batch, context, tp) / card.bandwidth;
  return Math.max(memory, decodeFlops(shape, batch, context) / tp / card.flops);
}

export function prefillSeconds(shape, card, itemsize, tokens, tp = 1) {
  const weights = (itemsize * (layerWeights(shape) + headWeights(shape))) / tp;
  return Math.max(weights / card.bandwidth, prefillFlops(shape, tokens) / tp / card.flops);
}

/** null where no batch does. */
export function turningBatch(shape, card, itemsize, context, tp = 1) {
  const compute = decodeFlops(shape, 1, context) / tp / card.flops;
  const read = (context * kvBytesPerToken(shape, itemsize, tp)) / card.bandwidth;
  if (compute <= read) return null;
  return Math.max(Math.ceil(decodeBytes(shape, itemsize, 0, 0, tp) / card.bandwidth / (compute - read)), 1);
}
