// attention_backward.cpp: compiled once an instruction set, see simd.h. A strip of queries at a time: their weights are
// computed again from q, k and the log of the sums, then d_q of the strip, then what the strip adds to d_k and d_v.
#include "attention_head.h"
#include "attention_kernel.h"
#include "meshrt/poll.h"

namespace meshrt::MESHRT_ISA {
namespace {

constexpr int64_t strip_rows = int64_t(10) * rows_of_tile;

template <class T, class In>
struct BackwardMemory {
  using M = Attended<T, In>;
  M *keys, *values;                 // transposed, in panels
  M *key_rows, *q_rows, *d_rows;    // k, q and d_out as right operands, where they do not lie so
  M* left;                          // a tile of q or of d_out as a left operand, where it does not lie so
  M *weights, *d_scores;            // [strip_rows / depth, strip_row], as products over the queries read them
  T *tile_weights, *tile_d_scores;  // [rows_of_tile, strip_row], where those have another form
  T *d_k, *d_v, *sum;               // sums over the query heads of a group; one tile's d_q
  int64_t strip_row, width, value_width;

  explicit BackwardMemory(const AttentionShape& s)
      : strip_row(round_up(s.keys, cols_of_tile<T>) + apart_by<T>),
        width(round_up(s.head, tile_cols<T>)),
        value_width(round_up(s.value_head, tile_cols<T>)) {
    const auto steps = [](int64_t inner) { return steps_of<M>(inner); };
    const int64_t strip = strip_rows / depth<M> * strip_row, tile = depth<M> > 1 ? rows_of_tile * strip_row : 0;
    const int64_t panels = round_up(s.keys, cols_of_tile<T>);
    const int64_t sizes[] = {panels * steps(s.head),
                             panels * steps(s.value_head),
                             steps(s.keys) * width,
                             steps(s.queries) * width,
                             steps(s.queries) * value_width,
                             rows_of_tile * steps(larger(s.head, s.value_head)),
                             strip,
                             strip,
                             tile,
                             tile,
                             s.keys * width,
                             s.keys * value_width,
                             rows_of_tile * width};
    int64_t total = 0;
    for (const int64_t size : sizes) total += AttentionMemory<T>::size(size);
    AttentionMemory<T> pieces(total);
    const int64_t* size = sizes;
    for (M** piece : {&keys, &values, &key_rows, &q_rows, &d_rows, &left, &weights, &d_scores})
      pieces.take(*piece, *size++);
    for (T** piece : {&tile_weights, &tile_d_scores, &d_k, &d_v, &sum}) pieces.take(*piece, *size++);
  }

  // Where the tile that begins at row `row` of the strip has its numbers as they are computed.
  T* weights_at(int64_t row) const { return numbers(weights, tile_weights, row); }
  T* d_scores_at(int64_t row) const { return numbers(d_scores, tile_d_scores, row); }

 private:
  T* numbers(M* strip, T* tile, int64_t row) const {
    if constexpr (depth < M >> 1) return tile;
    else return strip + row * strip_row;
  }
};

// One query head: everything that its gradients need.
template <class T, class In>
struct QueryHead {
  using M = Attended<T, In>;
  Head<const In> q, d_out;
  Head<const T> out;
  Head<const M> q_rows, d_rows;  // q and d_out as right operands
  const T* log_sum;
  Head<T> d_q;
};

// The weights `w` of query i from its scores, and the gradients `d` of the scores from those of the weights: 0 where it
// does not see, over the columns `of_strip`.
template <class T, class In>
void softmax_gradient(const AttentionShape& s, const QueryHead<T, In>& h, int64_t i, Visible of_strip, T* __restrict w,
                      T* __restrict d) {
  const T scale = T(s.scale);
  const T* const out = h.out.from_row(i).at;
  const In* const d_out = h.d_out.from_row(i).at;
  // What the gradient of softmax subtracts: the mean of d_weight under the weights.
  const T mean = sum_of<T>(s.value_head, [=](int64_t c) { return out[c] * static_cast<T>(d_out[c]); });
  const Visible seen = visible(s, i);
  const T log_sum = h.log_sum[i];
  const int64_t from = log_sum == -detail::infinity<T> ? seen.end : seen.begin;
  for (int64_t j = of_strip.begin; j < smaller(from, of_strip.end); ++j) w[j] = d[j] = 0;
  // Up to a whole register: scores are there, and what comes of them is overwritten.
  for (int64_t j = from; j < round_up(seen.end, lanes<T>); ++j) {
    w[j] = exp(w[j] * scale - log_sum);
    d[j] = w[j] * (d[j] - mean) * scale;
  }
  for (int64_t j = larger(of_strip.begin, seen.end); j < of_strip.end; ++j) w[j] = d[j] = 0;
}

// Weights and d_scores of the tile of queries i .., in the strip that begins at query `begin`; 0 where a query does not
// see, over all of the strip's keys.
template <class T, class In>
void tile_scores(const AttentionShape& s, const QueryHead<T, In>& h, const BackwardMemory<T, In>& m, int64_t i,
                 int64_t rows, int64_t begin, Visible strip) {
  using M = Attended<T, In>;
  constexpr int width = tile_cols<T>, panel = cols_of_tile<T>;
  const int64_t first = visible(s, i).begin / panel * panel, end = visible(s, i + rows - 1).end;
  T *const weights = m.weights_at(i - begin), *const d_scores = m.d_scores_at(i - begin);
  score_tiles(rows, steps_of<M>(s.head), left_rows<T>(h.q.from_row(i), rows, s.head, m.left), m.keys, first, end,
              weights, m.strip_row);
  score_tiles(rows, steps_of<M>(s.value_head), left_rows<T>(h.d_out.from_row(i), rows, s.value_head, m.left), m.values,
              first, end, d_scores, m.strip_row);
  const Visible columns = {strip.begin / width * width, round_up(strip.end, width)};
  for (int64_t r = 0; r < rows; r += depth<M>) {
    T *const w = weights + r * m.strip_row, *const d = d_scores + r * m.strip_row;
    softmax_gradient(s, h, i + r, columns, w, d);
    if constexpr (depth < M >> 1) {
      T *const next_w = w + m.strip_row, *const next_d = d + m.strip_row;
      if (r + 1 < rows) softmax_gradient(s, h, i + r + 1, columns, next_w, next_d);
      else
        for (int64_t j = columns.begin; j < columns.end; ++j) next_w[j] = next_d[j] = 0;
      const int64_t pair = (i - begin + r) / depth<M> * m.strip_row;
      rows_to_multiplicands(w, next_w, columns.begin, columns.end, m.weights + pair);
      rows_to_multiplicands(d, next_d, columns.begin, columns.end, m.d_scores + pair);
      row_to_multiplicands<In>(next_d, columns.begin, columns.end);
    } else {
      row_to_multiplicands<In>(w, columns.begin, columns.end);
    }
    row_to_multiplicands<In>(d, columns.begin, columns.end);
  }
}

// d_q of a tile of queries = d_scores · k
template <class T, class In, class M>
void tile_d_q(const AttentionShape& s, const QueryHead<T, In>& h, const BackwardMemory<T, In>& m, Head<const M> k,
              int64_t i, int64_t rows, int64_t begin) {
  const int64_t step = visible(s, i).begin / depth<M>, end = visible(s, i + rows - 1).end;
  const int64_t steps = larger(0, steps_of<M>(end) - step);
  const Left<M> d_scores = {reinterpret_cast<const M*>(m.d_scores_at(i - begin)) + step, m.strip_row, 1};
  const Head<const M> seen = k.from_row(step);
  multiply_tiles(rows, m.width, steps, d_scores, seen.at, seen.row, m.sum, m.width, false);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t d = 0; d < s.head; ++d) {
      T& to = h.d_q.at[(i + r) * h.d_q.row + d];
      to = (s.adds ? to : T(0)) + m.sum[r * m.width + d];
    }
}

// to [keys, width] += scoresᵀ · rows for the strip of queries [begin, end) and the keys that it sees
template <class In, class T, class M>
void add_transposed(const AttentionShape& s, const M* scores, int64_t scores_row, Head<const M> by, int64_t begin,
                    int64_t end, Visible strip, T* to, int64_t width) {
  for (int64_t j = strip.begin; j < strip.end; j += rows_of_tile) {
    const int64_t keys = smaller(rows_of_tile, strip.end - j);
    const Visible queries = seeing(s, j, j + keys);
    const int64_t step = larger(begin, queries.begin) / depth<M>;
    const int64_t steps = steps_of<M>(smaller(end, queries.end)) - step;
    if (steps <= 0) continue;
    const Left<M> left = {scores + (step - begin / depth<M>)*scores_row + j, 1, scores_row};
    const Head<const M> seeing_rows = by.from_row(step);
    multiply_tiles(keys, width, steps, left, seeing_rows.at, seeing_rows.row, to + j * width, width, true);
  }
}

// Fetches rows [first, first + rows_of_tile) of a head, as far as there are any.
template <class In>
void fetch_rows(Head<const In> head, int64_t first, int64_t rows, int64_t cols) {
  for (int64_t r = first; r < smaller(first + rows_of_tile, rows); ++r)
    for (int64_t c = 0; c < cols; c += line_bytes / int64_t(sizeof(In))) __builtin_prefetch(head.from_row(r).at + c);
}

template <class T, class In, class M>
void head_backward(const AttentionShape& s, const QueryHead<T, In>& h, Head<const M> k,
                   const BackwardMemory<T, In>& m) {
  for (int64_t begin = 0; begin < s.queries; begin += strip_rows) {
    const int64_t end = smaller(begin + strip_rows, s.queries);
    const Visible strip = {visible(s, begin).begin, visible(s, end - 1).end};
    for (int64_t i = begin; i < end; i += rows_of_tile) {
      const int64_t rows = smaller(rows_of_tile, end - i);
      // What forward has left was last seen long ago.
      fetch_rows(h.q, i + rows_of_tile, s.queries, s.head);
      fetch_rows(h.d_out, i + rows_of_tile, s.queries, s.value_head);
      fetch_rows(h.out, i + rows_of_tile, s.queries, s.value_head);
      tile_scores(s, h, m, i, rows, begin, strip);
      tile_d_q(s, h, m, k, i, rows, begin);
    }
    add_transposed<In, T, M>(s, m.weights, m.strip_row, h.d_rows, begin, end, strip, m.d_v, m.value_width);
    add_transposed<In, T, M>(s, m.d_scores, m.strip_row, h.q_rows, begin, end, strip, m.d_k, m.width);
  }
}

template <class T>
void copy_rows(const T* from, int64_t from_row, int64_t rows, int64_t cols, Head<T> to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) to.at[r * to.row + c] = from[r * from_row + c];
}

}  // namespace

template <class T, class In>
void attention_backward(const AttentionShape& s, const AttentionBackward<T, In>& t) {
  using M = Attended<T, In>;
  if (s.heads == 0 || s.key_heads == 0) return;
  const BackwardMemory<T, In> m(s);
  const int64_t group = s.heads / s.key_heads;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t g = 0; g < s.key_heads; ++g) {
      const Head<const In> key = head_of(t.k, t.k_at, b, g), value = head_of(t.v, t.v_at, b, g);
      transpose_to_panels<T>(key, s.keys, s.head, m.keys);
      transpose_to_panels<T>(value, s.keys, s.value_head, m.values);
      const Head<const M> key_rows = right_rows<T>(key, s.keys, s.head, m.key_rows);
      for (int64_t i = 0; i < s.keys * m.width; ++i) m.d_k[i] = 0;
      for (int64_t i = 0; i < s.keys * m.value_width; ++i) m.d_v[i] = 0;
      for (int64_t h = g * group; h < (g + 1) * group; ++h) {
        poll();
        const Head<const In> q = head_of(t.q, t.q_at, b, h), d_out = head_of(t.d_out, t.d_out_at, b, h);
        const QueryHead<T, In> head = {q,
                                       d_out,
                                       head_of(t.out, t.out_at, b, h),
                                       right_rows<T>(q, s.queries, s.head, m.q_rows),
                                       right_rows<T>(d_out, s.queries, s.value_head, m.d_rows),
                                       t.log_sum + (b * s.heads + h) * s.queries,
                                       head_of(t.d_q, t.d_q_at, b, h)};
        head_backward(s, head, key_rows, m);
      }
      copy_rows(m.d_k, m.width, s.keys, s.head, head_of(t.d_k, t.d_k_at, b, g));
      copy_rows(m.d_v, m.value_width, s.keys, s.value_head, head_of(t.d_v, t.d_v_at, b, g));
    }
}

#if !defined(__AVX512BF16__)  // that set is for attention of bf16
template void attention_backward(const AttentionShape&, const AttentionBackward<float>&);
template void attention_backward(const AttentionShape&, const AttentionBackward<double>&);
template void attention_backward(const AttentionShape&, const AttentionBackward<float, Float16>&);
#endif
template void attention_backward(const AttentionShape&, const AttentionBackward<float, Bfloat16>&);

}  // namespace meshrt::MESHRT_ISA
