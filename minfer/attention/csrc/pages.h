// Keys and values of one head, copied out of the pages of the K/V cache into tiles of float32.

#pragma once

#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "product.h"

constexpr int64_t KEYS = 64;  // of a tile
constexpr int64_t AHEAD = 16;  // tokens that a row of K or V is asked for before it is copied: memory takes that long

struct Sizes {
  int64_t Hq, Hkv, G, D, padded;  // padded: D in whole blocks of vectors
  int64_t block_size, block_stride, token_stride, head_stride, q_stride, table_stride;
  int64_t window;  // 0: none
  float scale;
};

template <typename T>
void copy_row(const T* from, float* to, const Sizes& s) {
  if constexpr (std::is_same_v<T, float>) {
    std::copy(from, from + s.D, to);
  } else {
    at::vec::convert(from, to, s.D);
  }
}

// Where the cache keeps a token's K, and V, for one head.
inline int64_t place(const Sizes& s, const int32_t* table, int64_t head, int64_t position) {
  return table[position / s.block_size] * s.block_stride + position % s.block_size * s.token_stride + head * s.head_stride;
}

// Ask the memory for a row before it is needed.
template <typename T>
void prefetch(const T* row, const Sizes& s) {
  for (int64_t byte = 0; byte < s.D * static_cast<int64_t>(sizeof(T)); byte += 64)
    __builtin_prefetch(reinterpret_cast<const char*>(row) + byte);
}

// Keys start .. start + KEYS of a sequence as keys [padded, KEYS] and values [KEYS, padded]; zeros from `end` on.
// copied [WIDTH, padded] is room to work in; columns D .. padded of it and of values stay as they are.
template <typename T>
void gather(const Sizes& s, const T* k, const T* v, const int32_t* table, int64_t head, int64_t start, int64_t end,
            float* copied, float* keys, float* values) {
  for (int64_t first = 0; first < KEYS; first += WIDTH) {
    for (int64_t i = 0; i < WIDTH; i++) {
      const int64_t position = start + first + i;
      float* key = copied + i * s.padded;
      float* value = values + (first + i) * s.padded;
      if (position < end) {
        const int64_t at = place(s, table, head, position), ahead = place(s, table, head, std::min(position + AHEAD, end - 1));
        prefetch(k + ahead, s);
        prefetch(v + ahead, s);
        copy_row(k + at, key, s);
        copy_row(v + at, value, s);
      } else {
        std::fill(key, key + s.D, 0.f);
        std::fill(value, value + s.D, 0.f);
      }
    }
    for (int64_t d = 0; d < s.padded; d += WIDTH)
      at::vec::transpose_mxn<float, WIDTH, WIDTH>(copied + d, s.padded, keys + d * KEYS + first, KEYS);
  }
}
