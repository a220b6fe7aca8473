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
    constexpr int width = tile_cols<T>;
    const int64_t keys_width = round_up(s.keys, width), value_width = round_up(s.value_head, width);
    const int64_t sizes[] = {keys_width * steps_of<M>(s.head), steps_of<M>(s.keys) * value_width,
                             tile_rows * steps_of<M>(s.head), tile_rows * keys_width, tile_rows * value_width};
    int64_t total = 0;
    for (const int64_t size : sizes) total += AttentionMemory<T>::size(size);
    AttentionMemory<T> pieces(total);
    pieces.take(keys, sizes[0]), pieces.take(values, sizes[1]), pieces.take(queries, sizes[2]);
    pieces.take(strip, sizes[3]), pieces.take(sum, sizes[4]);
  }
};

// score [to.end] of one query becomes e^(scale score - most) where it is seen and 0 from `from` to `past` elsewhere.
// Gives the log of the sum; *inverse is 1 / sum, 0 if nothing is seen. What will be rounded is counted from a multiple
// of ln 2: other keys with another `most` change it by a power of two, and so not how it is rounded.
template <class In, class T>
T softmax_row(T* __restrict score, Visible seen, int64_t from, int64_t past, T scale, T* inverse) {
  const int64_t n = seen.end - seen.begin;
  T* __restrict x = score + seen.begin;
  const T largest = max_of<T>(n, [=](int64_t j) { return x[j] * scale; });
  T most = largest == -detail::infinity<T> ? T(0) : largest;
  if constexpr (!std::is_same_v<T, In>) most = -floor(most * T(-1.4426950408889634)) * T(0.6931471805599453);
  const T total = sum_of<T>(n, [=](int64_t j) { return x[j] = exp(x[j] * scale - most); });
  for (int64_t j = from; j < smaller(seen.begin, past); ++j) score[j] = 0;
  for (int64_t j = larger(from, seen.end); j < past; ++j) score[j] = 0;
  *inverse = total > 0 ? 1 / total : T(0);
  return most + log(total);
}

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
  constexpr int width = tile_cols<T>;
  const int64_t strip_row = round_up(s.keys, width), value_width = round_up(s.value_head, width);
  for (int64_t i = 0; i < s.queries; i += tile_rows) {
    const int64_t rows = smaller(tile_rows, s.queries - i);
    const int64_t first = visible(s, i).begin / width * width, end = visible(s, i + rows - 1).end;
    const int64_t past = std::is_same_v<T, In> ? end : round_up(end, width);
    const Left<M> queries = left_rows<T>(q.from_row(i), rows, s.head, memory.queries);
    score_tiles(rows, steps_of<M>(s.head), queries, keys, first, end, memory.strip, strip_row);
    T inverse[tile_rows], kept[tile_rows] = {};  // of what is summed up here, and of what is there
    for (int64_t r = 0; r < rows; ++r) {
      T* const row = memory.strip + r * strip_row;
      const T log_of_sum = softmax_row<In>(row, visible(s, i + r), first, past, T(s.scale), inverse + r);
      row_to_multiplicands<In>(row, first, past);
      if (log_sum && s.adds) {
        const Shares<T> shares = join(log_sum + i + r, log_of_sum);
        kept[r] = shares.others;
        inverse[r] *= shares.these;
      } else if (log_sum) {
        log_sum[i + r] = log_of_sum;
      }
    }
    const Left<M> weights = {reinterpret_cast<const M*>(memory.strip) + first / depth<M>, strip_row, 1};
    const Head<const M> seen = values.from_row(first / depth<M>);
    for (int64_t d = 0; d < value_width; d += width)
      tile_of(rows, steps_of<M>(larger(0, end - first)), weights, seen.at + d, seen.row, memory.sum + d, value_width,
              false);
    for (int64_t r = 0; r < rows; ++r) {
      T* __restrict to = out.at + (i + r) * out.row;
      const T* __restrict sum = memory.sum + r * value_width;
      if (s.adds)
        for (int64_t d = 0; d < s.value_head; ++d) to[d] = kept[r] * to[d] + sum[d] * inverse[r];
      else
        for (int64_t d = 0; d < s.value_head; ++d) to[d] = sum[d] * inverse[r];
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
