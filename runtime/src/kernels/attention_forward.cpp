// attention_forward.cpp: compiled once an instruction set, see simd.h. One head of one sequence at a time, so that keys
// and values stay in the caches; a tile of queries has all its scores, as a strip, before softmax. What other keys gave
// is weighed against it afterwards.
#include "attention_head.h"
#include "attention_kernel.h"
#include "meshrt/poll.h"

namespace meshrt::MESHRT_ISA {
namespace {

template <class T, class In>
struct ForwardMemory {
  using M = Attended<T, In>;
  M *keys, *values, *queries;  // as the tile reads them, of queries one tile
  T *strip, *sum;

  explicit ForwardMemory(const AttentionShape& s) {
    const int64_t keys_width = round_up(s.keys, cols_of_tile<T>), value_width = round_up(s.value_head, tile_cols<T>);
    const int64_t sizes[] = {keys_width * steps_of<M>(s.head), steps_of<M>(s.keys) * value_width,
                             rows_of_tile * steps_of<M>(s.head), rows_of_tile * keys_width, rows_of_tile * value_width};
    int64_t total = 0;
    for (const int64_t size : sizes) total += AttentionMemory<T>::size(size);
    AttentionMemory<T> pieces(total);
    pieces.take(keys, sizes[0]), pieces.take(values, sizes[1]), pieces.take(queries, sizes[2]);
    pieces.take(strip, sizes[3]), pieces.take(sum, sizes[4]);
  }
};

// So many scores of a row count from the first that is seen: those that are, and up to a whole register more, where the
// row has room, that are infinitely low and add 0 to the sum.
template <class T>
int64_t whole_registers(T* score, Visible seen, int64_t room, T scale) {
  int64_t n = seen.end - seen.begin;
  if (const int64_t whole = round_up(n, lane_count); scale > 0 && whole <= room - seen.begin)
    for (; n < whole; ++n) score[seen.begin + n] = -detail::infinity<T>;
  return n;
}

// What the scores of a row, the largest of which is given, are counted from. What will be rounded is counted from a
// multiple of ln 2: other keys with another largest change it by a power of two, and so not how it is rounded.
template <class In, class T>
MESHRT_INLINE T counted_from(T largest) {
  const T most = detail::select(largest == -detail::infinity<T>, T(0), largest);
  if constexpr (std::is_same_v<T, In>) return most;
  else return -floor(most * T(-1.4426950408889634)) * T(0.6931471805599453);
}

// score becomes e^(scale score - most) for the n that are seen, from `begin` on, and 0 from `from` to `past` elsewhere.
// Gives the sum.
template <class T>
T weights_of_row(T* __restrict score, int64_t begin, int64_t n, int64_t from, int64_t past, T scale, T most) {
  T* __restrict x = score + begin;
  const T total = sum_of<T>(n, [=](int64_t j) { return x[j] = exp(x[j] * scale - most); });
  for (int64_t j = from; j < smaller(begin, past); ++j) score[j] = 0;
  for (int64_t j = larger(from, begin + n); j < past; ++j) score[j] = 0;
  return total;
}

// The scores of a tile's queries become weights but for a factor, its inverse sum, row by row; step by step for all
// rows, as a row's maximum, sum and logarithm take long and wait for each other.
template <class T>
struct TileSoftmax {
  T total[rows_of_tile], most[rows_of_tile], log_of_sum[rows_of_tile], inverse[rows_of_tile];

  template <class In>
  MESHRT_INLINE void of(const AttentionShape& s, int64_t i, int64_t rows, int64_t from, int64_t past, T* strip,
                        int64_t strip_row) {
    const T scale = T(s.scale);
    int64_t count[rows_of_tile];
    for (int64_t r = 0; r < rows_of_tile; ++r) total[r] = 1, most[r] = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const Visible seen = visible(s, i + r);
      T* const row = strip + r * strip_row;
      count[r] = whole_registers(row, seen, strip_row, scale);
      most[r] = max_of<T>(count[r], [=, x = row + seen.begin](int64_t j) { return x[j] * scale; });
    }
    for (int64_t r = 0; r < rows_of_tile; ++r) most[r] = counted_from<In>(most[r]);
    for (int64_t r = 0; r < rows; ++r)
      total[r] = weights_of_row(strip + r * strip_row, visible(s, i + r).begin, count[r], from, past, scale, most[r]);
    for (int64_t r = 0; r < rows_of_tile; ++r) {
      log_of_sum[r] = most[r] + log(total[r]);
      inverse[r] = detail::select(total[r] > 0, 1 / total[r], T(0));
    }
  }
};

// What a row of other keys counts for, and one of these, in the sum of both, whose log replaces that of the others.
template <class T>
struct Shares {
  T others, these;
};
template <class T>
Shares<T> join(T* log_sum, T log_of_these) {
  const T most = *log_sum > log_of_these ? *log_sum : log_of_these;
  if (most == -detail::infinity<T>) return {T(0), T(0)};
  const T others = exp(*log_sum - most), these = exp(log_of_these - most), sum = others + these;
  *log_sum = most + log(sum);
  return {others / sum, these / sum};
}

// All queries of one head. The strip of a tile has its scores, then its weights, which a product with the values reads.
template <class T, class In, class M>
void head_forward(const AttentionShape& s, Head<const In> q, const M* keys, Head<const M> values, Head<T> out,
                  T* log_sum, const ForwardMemory<T, In>& memory) {
  constexpr int width = cols_of_tile<T>;
  const int64_t strip_row = round_up(s.keys, width), value_width = round_up(s.value_head, tile_cols<T>);
  for (int64_t i = 0; i < s.queries; i += rows_of_tile) {
    const int64_t rows = smaller(rows_of_tile, s.queries - i);
    const int64_t first = visible(s, i).begin / width * width, end = visible(s, i + rows - 1).end;
    const int64_t past = std::is_same_v<T, In> ? end : round_up(end, width);
    const Left<M> queries = left_rows<T>(q.from_row(i), rows, s.head, memory.queries);
    score_tiles(rows, steps_of<M>(s.head), queries, keys, first, end, memory.strip, strip_row);
    TileSoftmax<T> softmax;  // of what is summed up here
    softmax.template of<In>(s, i, rows, first, past, memory.strip, strip_row);
    T kept[rows_of_tile] = {};  // of what is there
    for (int64_t r = 0; r < rows; ++r) row_to_multiplicands<In>(memory.strip + r * strip_row, first, past);
    for (int64_t r = 0; log_sum && r < rows; ++r) {
      if (s.adds) {
        const Shares<T> shares = join(log_sum + i + r, softmax.log_of_sum[r]);
        kept[r] = shares.others;
        softmax.inverse[r] *= shares.these;
      } else {
        log_sum[i + r] = softmax.log_of_sum[r];
      }
    }
    const Left<M> weights = {reinterpret_cast<const M*>(memory.strip) + first / depth<M>, strip_row, 1};
    const Head<const M> seen = values.from_row(first / depth<M>);
    multiply_tiles(rows, value_width, steps_of<M>(larger(0, end - first)), weights, seen.at, seen.row, memory.sum,
                   value_width, false);
    for (int64_t r = 0; r < rows; ++r) {
      T* __restrict to = out.at + (i + r) * out.row;
      const T* __restrict sum = memory.sum + r * value_width;
      if (s.adds)
        for (int64_t d = 0; d < s.value_head; ++d) to[d] = kept[r] * to[d] + sum[d] * softmax.inverse[r];
      else
        for (int64_t d = 0; d < s.value_head; ++d) to[d] = sum[d] * softmax.inverse[r];
    }
  }
}

}  // namespace

template <class T, class In>
void attention(const AttentionShape& s, const AttentionForward<T, In>& t) {
  using M = Attended<T, In>;
  if (s.heads == 0 || s.key_heads == 0) return;
  const ForwardMemory<T, In> memory(s);
  const int64_t group = s.heads / s.key_heads;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t g = 0; g < s.key_heads; ++g) {
      transpose_to_panels<T>(head_of(t.k, t.k_at, b, g), s.keys, s.head, memory.keys);
      const Head<const M> values = right_rows<T>(head_of(t.v, t.v_at, b, g), s.keys, s.value_head, memory.values);
      for (int64_t h = g * group; h < (g + 1) * group; ++h) {
        poll();
        head_forward(s, head_of(t.q, t.q_at, b, h), memory.keys, values, head_of(t.out, t.out_at, b, h),
                     t.log_sum ? t.log_sum + (b * s.heads + h) * s.queries : nullptr, memory);
      }
    }
}

#if !defined(__AVX512BF16__)  // that set is for attention of bf16
template void attention(const AttentionShape&, const AttentionForward<float>&);
template void attention(const AttentionShape&, const AttentionForward<double>&);
template void attention(const AttentionShape&, const AttentionForward<float, Float16>&);
#endif
template void attention(const AttentionShape&, const AttentionForward<float, Bfloat16>&);

}  // namespace meshrt::MESHRT_ISA
