// attention_backward.cpp: compiled once an instruction set, see simd.h. A strip of queries at a time: their weights are
// computed again from q, k and the log of the sums, then d_q of the strip, then what the strip adds to d_k and d_v.
#include "attention_head.h"
#include "attention_kernel.h"
#include "meshrt/poll.h"

namespace meshrt::MESHRT_ISA {
namespace {

constexpr int64_t strip_rows = int64_t(8) * tile_rows;

template <class T>
struct BackwardMemory {
  T *keys, *values;               // transposed, in panels
  T *key_rows, *q_rows, *d_rows;  // copies of k, q and d_out where their rows are no multiple of a tile
  T *weights, *d_scores;          // [strip_rows, strip_row]
  T *d_k, *d_v, *sum;             // sums over the query heads of a group; one tile's d_q
  int64_t strip_row, width, value_width;

  explicit BackwardMemory(const AttentionShape& s)
      : strip_row(round_up(s.keys, tile_cols<T>)),
        width(round_up(s.head, tile_cols<T>)),
        value_width(round_up(s.value_head, tile_cols<T>)) {
    const int64_t sizes[] = {
        strip_row * s.head,     strip_row * s.value_head, s.keys * width, s.queries * width,    s.queries * value_width,
        strip_rows * strip_row, strip_rows * strip_row,   s.keys * width, s.keys * value_width, tile_rows * width};
    T** const pieces_of[] = {&keys, &values, &key_rows, &q_rows, &d_rows, &weights, &d_scores, &d_k, &d_v, &sum};
    int64_t total = 0;
    for (const int64_t size : sizes) total += Pieces<T>::size(size);
    Pieces<T> pieces(total);
    for (int i = 0; i < 10; ++i) *pieces_of[i] = pieces.take(sizes[i]);
  }
};

// One query head: everything that its gradients need.
template <class T>
struct QueryHead {
  Head<const T> q, out, d_out;
  Head<const T> q_rows, d_rows;  // q and d_out as right operands
  const T* log_sum;
  Head<T> d_q;
};

// Weights and d_scores of the tile of queries i .., into rows i - begin .. of the strip; 0 where a query does not see,
// over all of the strip's keys.
template <class T>
void tile_scores(const AttentionShape& s, const QueryHead<T>& h, const BackwardMemory<T>& m, int64_t i, int64_t rows,
                 int64_t begin, Visible strip) {
  constexpr int width = tile_cols<T>;
  const int64_t first = visible(s, i).begin / width * width, end = visible(s, i + rows - 1).end;
  T* weights = m.weights + (i - begin) * m.strip_row;
  T* d_scores = m.d_scores + (i - begin) * m.strip_row;
  score_tiles(rows, s.head, {h.q.at + i * h.q.row, h.q.row}, m.keys, first, end, weights, m.strip_row);
  score_tiles(rows, s.value_head, {h.d_out.at + i * h.d_out.row, h.d_out.row}, m.values, first, end, d_scores,
              m.strip_row);
  const T scale = T(s.scale);
  for (int64_t r = 0; r < rows; ++r) {
    T* __restrict w = weights + r * m.strip_row;
    T* __restrict d = d_scores + r * m.strip_row;
    const T *out = h.out.at + (i + r) * h.out.row, *d_out = h.d_out.at + (i + r) * h.d_out.row;
    // What the gradient of softmax subtracts: the mean of d_weight under the weights.
    const T mean = sum_of<T>(s.value_head, [=](int64_t c) { return out[c] * d_out[c]; });
    const Visible seen = visible(s, i + r);
    const T log_sum = h.log_sum[i + r];
    const int64_t from = log_sum == -detail::infinity<T> ? seen.end : seen.begin;
    for (int64_t j = strip.begin; j < smaller(from, strip.end); ++j) w[j] = d[j] = 0;
    for (int64_t j = from; j < seen.end; ++j) {
      w[j] = exp(w[j] * scale - log_sum);
      d[j] = w[j] * (d[j] - mean) * scale;
    }
    for (int64_t j = larger(strip.begin, seen.end); j < strip.end; ++j) w[j] = d[j] = 0;
  }
}

// d_q of a tile of queries = d_scores · k
template <class T>
void tile_d_q(const AttentionShape& s, const QueryHead<T>& h, const BackwardMemory<T>& m, Head<const T> k, int64_t i,
              int64_t rows, int64_t begin) {
  constexpr int width = tile_cols<T>;
  const int64_t first = visible(s, i).begin, inner = larger(0, visible(s, i + rows - 1).end - first);
  const Left<T> d_scores = {m.d_scores + (i - begin) * m.strip_row + first, m.strip_row, 1};
  for (int64_t d = 0; d < m.width; d += width)
    tile_of(rows, inner, d_scores, k.at + first * k.row + d, k.row, m.sum + d, m.width, false);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t d = 0; d < s.head; ++d) {
      T& to = h.d_q.at[(i + r) * h.d_q.row + d];
      to = (s.adds ? to : T(0)) + m.sum[r * m.width + d];
    }
}

// to [keys, width] += scoresᵀ · rows for the strip of queries [begin, end) and the keys that it sees
template <class T>
void add_transposed(const AttentionShape& s, const T* scores, int64_t scores_row, Head<const T> by, int64_t begin,
                    int64_t end, Visible strip, T* to, int64_t width) {
  for (int64_t j = strip.begin; j < strip.end; j += tile_rows) {
    const int64_t keys = smaller(tile_rows, strip.end - j);
    const Visible queries = seeing(s, j, j + keys);
    const int64_t first = larger(begin, queries.begin), inner = smaller(end, queries.end) - first;
    if (inner <= 0) continue;
    const Left<T> left = {scores + (first - begin) * scores_row + j, 1, scores_row};
    for (int64_t d = 0; d < width; d += tile_cols<T>)
      tile_of(keys, inner, left, by.at + first * by.row + d, by.row, to + j * width + d, width, true);
  }
}

template <class T>
void head_backward(const AttentionShape& s, const QueryHead<T>& h, Head<const T> k, const BackwardMemory<T>& m) {
  for (int64_t begin = 0; begin < s.queries; begin += strip_rows) {
    const int64_t end = smaller(begin + strip_rows, s.queries);
    const Visible strip = {visible(s, begin).begin, visible(s, end - 1).end};
    for (int64_t i = begin; i < end; i += tile_rows) {
      const int64_t rows = smaller(tile_rows, end - i);
      tile_scores(s, h, m, i, rows, begin, strip);
      tile_d_q(s, h, m, k, i, rows, begin);
    }
    add_transposed(s, m.weights, m.strip_row, h.d_rows, begin, end, strip, m.d_v, m.value_width);
    add_transposed(s, m.d_scores, m.strip_row, h.q_rows, begin, end, strip, m.d_k, m.width);
  }
}

template <class T>
void copy_rows(const T* from, int64_t from_row, int64_t rows, int64_t cols, Head<T> to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) to.at[r * to.row + c] = from[r * from_row + c];
}

}  // namespace

template <class T>
void attention_backward(const AttentionShape& s, const AttentionBackward<T>& t) {
  if (s.heads == 0 || s.key_heads == 0) return;
  const BackwardMemory<T> m(s);
  const int64_t group = s.heads / s.key_heads;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t g = 0; g < s.key_heads; ++g) {
      const Head<const T> key = head_of(t.k, t.k_at, b, g), value = head_of(t.v, t.v_at, b, g);
      transpose_to_panels(key, s.keys, s.head, m.keys);
      transpose_to_panels(value, s.keys, s.value_head, m.values);
      const Head<const T> key_rows = whole_rows(key, s.keys, s.head, m.key_rows);
      for (int64_t i = 0; i < s.keys * m.width; ++i) m.d_k[i] = 0;
      for (int64_t i = 0; i < s.keys * m.value_width; ++i) m.d_v[i] = 0;
      for (int64_t h = g * group; h < (g + 1) * group; ++h) {
        poll();
        const Head<const T> q = head_of(t.q, t.q_at, b, h), d_out = head_of(t.d_out, t.d_out_at, b, h);
        const QueryHead<T> head = {q,
                                   head_of(t.out, t.out_at, b, h),
                                   d_out,
                                   whole_rows(q, s.queries, s.head, m.q_rows),
                                   whole_rows(d_out, s.queries, s.value_head, m.d_rows),
                                   t.log_sum + (b * s.heads + h) * s.queries,
                                   head_of(t.d_q, t.d_q_at, b, h)};
        head_backward(s, head, key_rows, m);
      }
      copy_rows(m.d_k, m.width, s.keys, s.head, head_of(t.d_k, t.d_k_at, b, g));
      copy_rows(m.d_v, m.value_width, s.keys, s.value_head, head_of(t.d_v, t.d_v_at, b, g));
    }
}

template void attention_backward(const AttentionShape&, const AttentionBackward<float>&);
template void attention_backward(const AttentionShape&, const AttentionBackward<double>&);

}  // namespace meshrt::MESHRT_ISA
