// C[rows, columns] += A[rows, inner] B[inner, columns] in float32, for matrices small enough for a core's own cache.
//
// A block of C stays in registers while the inner dimension runs past: that is all the blocking that matrices of this size need.

#pragma once

#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>

#include <cstdint>

using Vec = at::vec::Vectorized<float>;
constexpr int64_t WIDTH = Vec::size();
constexpr int64_t BLOCK_ROWS = 6;  // of C that stay in registers, with BLOCK_VECS vectors of each
constexpr int64_t BLOCK_VECS = 2;

template <int NUM_ROWS>
inline void add_block(const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t columns, int64_t inner) {
  for (int64_t column = 0; column < columns; column += BLOCK_VECS * WIDTH) {
    Vec sums[NUM_ROWS][BLOCK_VECS];
    for (int row = 0; row < NUM_ROWS; row++)
      for (int v = 0; v < BLOCK_VECS; v++) sums[row][v] = Vec::loadu(c + row * columns + column + v * WIDTH);
    for (int64_t i = 0; i < inner; i++) {
      Vec right[BLOCK_VECS];
      for (int v = 0; v < BLOCK_VECS; v++) right[v] = Vec::loadu(b + i * ldb + column + v * WIDTH);
      for (int row = 0; row < NUM_ROWS; row++) {
        const Vec left(a[row * lda + i]);
        for (int v = 0; v < BLOCK_VECS; v++) sums[row][v] = at::vec::fmadd(left, right[v], sums[row][v]);
      }
    }
    for (int row = 0; row < NUM_ROWS; row++)
      for (int v = 0; v < BLOCK_VECS; v++) sums[row][v].store(c + row * columns + column + v * WIDTH);
  }
}

// The rows of A are lda apart, those of B ldb, those of C lie side by side; columns is a multiple of BLOCK_VECS * WIDTH.
inline void add_product(const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t rows, int64_t columns,
                        int64_t inner) {
  for (; rows >= BLOCK_ROWS; rows -= BLOCK_ROWS, a += BLOCK_ROWS * lda, c += BLOCK_ROWS * columns)
    add_block<BLOCK_ROWS>(a, lda, b, ldb, c, columns, inner);
  switch (rows) {
    case 5: return add_block<5>(a, lda, b, ldb, c, columns, inner);
    case 4: return add_block<4>(a, lda, b, ldb, c, columns, inner);
    case 3: return add_block<3>(a, lda, b, ldb, c, columns, inner);
    case 2: return add_block<2>(a, lda, b, ldb, c, columns, inner);
    case 1: return add_block<1>(a, lda, b, ldb, c, columns, inner);
  }
}
