// Attention over the paged K/V cache, on a CPU: decode rows and prefill chunks of one batch.
//
// Layouts
//   q, out       [T, Hq, D]                  sequence b owns tokens query_start[b] .. query_start[b + 1], the last of its context
//   K, V         [N, block_size, Hkv, D]     any strides but the last, the same for both
//   block_tables [B, M] int32, query_start [B + 1] int32, context_lens [B] int32
//
// One task is a tile of one sequence's queries with one K/V head, so that each byte of K and V is read once for all queries and heads
// that share it. It takes the keys KEYS at a time, with an online softmax, and computes on full vectors of float32 only: rows of the
// pages that are such vectors are read where they lie, others are copied first and filled up with zeros. K is transposed on the way.
// Where decode tasks are fewer than the threads would like, each context is split, and the parts are merged by their sums
// (flash-decoding).

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "pages.h"
#include "product.h"

namespace {

constexpr int64_t KEYS = 64;  // of a tile
constexpr int64_t ROWS = 48;  // queries times heads of a tile, about
constexpr float LOWEST = -std::numeric_limits<float>::infinity();

int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

// Queries [first, first + count) of a sequence, with one K/V head, over part `split` of `splits` of the keys that they see.
struct Task {
  int64_t token;    // of the first query, among the T tokens
  int64_t position; // of the first query, in its sequence
  int64_t count, head, row, split, splits;
};

// What one thread computes in. A row is one query of one head: row r is query r / G, head r % G of the group.
struct Scratch {
  explicit Scratch(const Sizes& s, int64_t rows)
      : queries(rows * s.padded), keys(s.padded * KEYS), copied(WIDTH * s.padded), scores(rows * KEYS),
        sums(rows * s.padded), best(rows), total(rows) {}
  std::vector<float> queries, keys, copied, scores;
  std::vector<float> sums, best, total;  // the online softmax: weighted values, largest score, sum of weights
};

// One row of the online softmax: scores to weights; only keys [low, high) of the tile are seen.
void weigh(float* scores, int64_t low, int64_t high, float scale, float* sums, float& best, float& total, int64_t padded) {
  std::fill(scores, scores + std::max<int64_t>(low, 0), LOWEST);
  if (high < KEYS) std::fill(scores + std::max<int64_t>(high, 0), scores + KEYS, LOWEST);
  Vec top(LOWEST);
  for (int64_t i = 0; i < KEYS; i += WIDTH) top = at::vec::maximum(top, Vec::loadu(scores + i));
  const float largest = at::vec::vec_reduce_all<float>([](Vec& x, Vec& y) { return at::vec::maximum(x, y); }, top);
  const float better = std::max(best, scale * largest);
  if (better == LOWEST) {  // a window hides all keys so far
    std::fill(scores, scores + KEYS, 0.f);
    return;
  }
  Vec sum(0.f);
  for (int64_t i = 0; i < KEYS; i += WIDTH) {
    const Vec weights = (Vec::loadu(scores + i) * Vec(scale) - Vec(better)).exp();
    weights.store(scores + i);
    sum = sum + weights;
  }
  const float fade = std::exp(best - better);
  total = total * fade + at::vec::vec_reduce_all<float>([](Vec& x, Vec& y) { return x + y; }, sum);
  best = better;
  if (fade != 1.f)
    for (int64_t d = 0; d < padded; d += WIDTH) (Vec::loadu(sums + d) * Vec(fade)).store(sums + d);
}

template <typename T>
void attend(const Sizes& s, const T* q, const T* k, const T* v, const int32_t* table, const Task& task, Scratch& scratch) {
  const int64_t rows = task.count * s.G;
  for (int64_t row = 0; row < rows; row++)
    copy_row(q + (task.token + row / s.G) * s.q_stride + (task.head * s.G + row % s.G) * s.D,
             scratch.queries.data() + row * s.padded, s);
  std::fill_n(scratch.sums.begin(), rows * s.padded, 0.f);
  std::fill_n(scratch.best.begin(), rows, LOWEST);
  std::fill_n(scratch.total.begin(), rows, 0.f);

  const int64_t end = task.position + task.count;
  const int64_t begin = s.window ? std::max<int64_t>(task.position - s.window + 1, 0) : 0;
  const int64_t share = round_up((end - begin + task.splits - 1) / task.splits, KEYS);
  const int64_t low = begin + task.split * share, high = std::min(low + share, end);
  for (int64_t start = low; start < high; start += KEYS) {
    const int64_t seen = std::min(start + KEYS, high);
    for (int64_t at = start; at < seen; at += WIDTH) {
      const Rows keys = rows_at(s, k, table, task.head, at, high, scratch.copied.data());
      for (int64_t d = 0; d < s.padded; d += WIDTH)
        at::vec::transpose_mxn<float, WIDTH, WIDTH>(keys.first + d, keys.stride, scratch.keys.data() + d * KEYS + at - start, KEYS);
    }
    std::fill_n(scratch.scores.begin(), rows * KEYS, 0.f);
    add_product(scratch.queries.data(), s.padded, scratch.keys.data(), KEYS, scratch.scores.data(), rows, KEYS, s.padded);
    for (int64_t row = 0; row < rows; row++) {
      const int64_t position = task.position + row / s.G;
      const int64_t first = s.window ? position - s.window + 1 - start : 0, last = std::min(position + 1, high) - start;
      weigh(scratch.scores.data() + row * KEYS, std::min(first, KEYS), last, s.scale, scratch.sums.data() + row * s.padded,
            scratch.best[row], scratch.total[row], s.padded);
    }
    for (int64_t at = start; at < seen; at += WIDTH) {
      const Rows values = rows_at(s, v, table, task.head, at, high, scratch.copied.data());
      add_product(scratch.scores.data() + at - start, KEYS, values.first, values.stride, scratch.sums.data(), rows, s.padded, WIDTH);
    }
  }
}

// Run work(i, scratch) for all i below count, each thread taking the next one that is left.
template <typename Work>
void share_out(int64_t count, const Sizes& s, int64_t rows, const Work& work) {
  std::atomic<int64_t> next{0};
  at::parallel_for(0, std::min<int64_t>(count, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    Scratch scratch(s, rows);
    for (int64_t i = next++; i < count; i = next++) work(i, scratch);
  });
}

template <typename T>
void store(const Sizes& s, T* out, const float* sums, float total) {
  const float share = total > 0 ? 1 / total : 0.f;
  for (int64_t d = 0; d < s.D; d++) out[d] = static_cast<T>(sums[d] * share);
}

template <typename T>
void run(const Sizes& s, const std::vector<Task>& tasks, int64_t max_count, const T* q, const T* k, const T* v, const int32_t* tables,
         T* out) {
  const int64_t part = s.padded + 2;  // of a split: its weighted values, largest score and sum
  std::vector<int64_t> at(tasks.size(), -1);  // where a task that is a split leaves its parts
  int64_t num_parts = 0;
  for (size_t i = 0; i < tasks.size(); i++)
    if (tasks[i].splits > 1) at[i] = num_parts, num_parts += s.G;
  std::vector<float> parts(num_parts * part);

  share_out(tasks.size(), s, max_count * s.G, [&](int64_t i, Scratch& scratch) {
    const Task& task = tasks[i];
    attend(s, q, k, v, tables + task.row * s.table_stride, task, scratch);
    for (int64_t row = 0; row < task.count * s.G; row++) {
      const float* sums = scratch.sums.data() + row * s.padded;
      if (at[i] < 0) {
        store(s, out + ((task.token + row / s.G) * s.Hq + task.head * s.G + row % s.G) * s.D, sums, scratch.total[row]);
      } else {
        float* to = parts.data() + (at[i] + row) * part;
        std::copy(sums, sums + s.padded, to);
        to[s.padded] = scratch.best[row], to[s.padded + 1] = scratch.total[row];
      }
    }
  });

  share_out(num_parts ? tasks.size() : 0, s, 1, [&](int64_t i, Scratch& scratch) {
    const Task& task = tasks[i];
    if (at[i] < 0 || task.split > 0) return;
    for (int64_t head = 0; head < s.G; head++) {
      std::fill_n(scratch.sums.begin(), s.padded, 0.f);
      float best = LOWEST, total = 0;
      for (int64_t split = 0; split < task.splits; split++)
        best = std::max(best, parts[(at[i] + split * s.G + head) * part + s.padded]);
      for (int64_t split = 0; split < task.splits; split++) {
        const float* from = parts.data() + (at[i] + split * s.G + head) * part;
        const float weight = from[s.padded] == LOWEST ? 0.f : std::exp(from[s.padded] - best);
        total += weight * from[s.padded + 1];
        for (int64_t d = 0; d < s.D; d++) scratch.sums[d] += weight * from[d];
      }
      store(s, out + (task.token * s.Hq + task.head * s.G + head) * s.D, scratch.sums.data(), total);
    }
  });
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& block_tables,
                     const at::Tensor& query_start, const at::Tensor& context_lens, double scale, int64_t window) {
  Sizes s;
  s.Hq = q.size(1), s.Hkv = k.size(2), s.G = s.Hq / s.Hkv, s.D = q.size(2), s.padded = round_up(s.D, BLOCK_VECS * WIDTH);
  s.block_size = k.size(1), s.block_stride = k.stride(0), s.token_stride = k.stride(1), s.head_stride = k.stride(2);
  s.q_stride = q.stride(0), s.table_stride = block_tables.stride(0), s.window = window, s.scale = static_cast<float>(scale);

  const int64_t B = context_lens.size(0), tile = std::max<int64_t>(1, ROWS / s.G), threads = at::get_num_threads();
  const int32_t *starts = query_start.const_data_ptr<int32_t>(), *contexts = context_lens.const_data_ptr<int32_t>();
  int64_t num_tasks = 0, max_count = 1;
  for (int64_t row = 0; row < B; row++) num_tasks += (starts[row + 1] - starts[row] + tile - 1) / tile * s.Hkv;
  const int64_t wanted = threads > 1 ? (2 * threads + num_tasks - 1) / std::max<int64_t>(1, num_tasks) : 1;
  std::vector<Task> tasks;
  for (int64_t row = 0; row < B; row++) {
    const int64_t length = starts[row + 1] - starts[row], before = contexts[row] - length;
    const int64_t splits = length == 1 ? std::clamp<int64_t>(contexts[row] / (4 * KEYS), 1, std::max<int64_t>(1, wanted)) : 1;
    for (int64_t head = 0; head < s.Hkv; head++)
      for (int64_t first = 0; first < length; first += tile)
        for (int64_t split = 0; split < splits; split++) {
          const int64_t count = std::min(tile, length - first);
          max_count = std::max(max_count, count);
          tasks.push_back({starts[row] + first, before + first, count, head, row, split, splits});
        }
  }
  at::Tensor out = at::empty({q.size(0), s.Hq, s.D}, q.options());
  const auto with = [&](auto type) {
    using T = decltype(type);
    run<T>(s, tasks, max_count, q.const_data_ptr<T>(), k.const_data_ptr<T>(), v.const_data_ptr<T>(),
           block_tables.const_data_ptr<int32_t>(), out.mutable_data_ptr<T>());
  };
  switch (q.scalar_type()) {
    case at::kFloat: with(float()); break;
    case at::kBFloat16: with(at::BFloat16()); break;
    case at::kHalf: with(at::Half()); break;
    default: TORCH_CHECK(false, "attention.cpp computes float32, float16 and bfloat16, not ", q.scalar_type());
  }
  return out;
}

}  // namespace

TORCH_LIBRARY(minfer_cpp, library) {
  library.def(
      "attention(Tensor q, Tensor k, Tensor v, Tensor block_tables, Tensor query_start, Tensor context_lens, float scale, int window) "
      "-> Tensor");
}

TORCH_LIBRARY_IMPL(minfer_cpp, CPU, library) { library.impl("attention", attention); }
