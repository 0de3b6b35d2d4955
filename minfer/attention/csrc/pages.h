// Keys and values of one head as rows of float32: in the pages of the K/V cache, or copied out of them.

#pragma once

#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "product.h"

constexpr int64_t AHEAD = 32;  // tokens that a row of K or V is asked for before it is read: memory takes that long

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

// WIDTH rows, `stride` apart.
struct Rows {
  const float* first;
  int64_t stride;
};

// K or V of the tokens from `start` on. Where they lie, if that is one page and they are whole vectors of float32; else copied, with
// zeros from `end` on. copied [WIDTH, padded]: its columns D .. padded stay as they are.
template <typename T>
Rows rows_at(const Sizes& s, const T* cache, const int32_t* table, int64_t head, int64_t start, int64_t end, float* copied) {
  for (int64_t i = 0; i < WIDTH; i++) prefetch(cache + place(s, table, head, std::min(start + AHEAD + i, end - 1)), s);
  if constexpr (std::is_same_v<T, float>)
    if (s.D == s.padded && start + WIDTH <= end && start % s.block_size + WIDTH <= s.block_size)
      return {cache + place(s, table, head, start), s.token_stride};
  for (int64_t i = 0; i < WIDTH; i++) {
    if (start + i < end)
      copy_row(cache + place(s, table, head, start + i), copied + i * s.padded, s);
    else
      std::fill_n(copied + i * s.padded, s.D, 0.f);
  }
  return {copied, s.padded};
}
