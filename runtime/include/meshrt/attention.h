// attention.h: exact attention, softmax(scale q kᵀ) v, forward and backward, without ever holding a score matrix:
// scores exist as a strip of rows, tiles that the mask hides are skipped, and only the log of each row's sum is kept
// for backward. The operands of its products may be bf16 or f16: what comes of them, and what it computes with beside
// them, is f32 then, but weights and the gradients of scores are rounded to that type where a product reads them.
#pragma once
#include <cstdint>

#include "meshrt/bfloat16.h"
#include "meshrt/float16.h"

namespace meshrt {

/// Distances between the elements of a tensor [batch, seq, heads, head]; the last dim has unit stride.
struct HeadStrides {
  int64_t batch = 0, seq = 0, head = 0;
};

/// Extents and mask. Query head h reads key head h / (heads / key_heads).
struct AttentionShape {
  static constexpr int64_t unbounded = int64_t(1) << 60;  ///< farther than any positions are apart
  int64_t batch = 0, heads = 0, key_heads = 0;
  int64_t queries = 0, keys = 0;
  int64_t head = 0;            ///< of q and k
  int64_t value_head = 0;      ///< of v and out
  double scale = 1;            ///< of the scores, usually 1 / sqrt(head)
  int64_t least = -unbounded;  ///< a query sees keys whose position is less than its own by so much or more,
  int64_t most = unbounded;    ///< and by no more than this; least = 0 is a causal mask
  int64_t query_begin = 0, key_begin = 0;  ///< global positions of query 0 and key 0 of this part
  const int64_t* query_at = nullptr;       ///< of all queries, ascending, where they are not neighbours
  bool adds = false;                       ///< these keys join others: see below
};

/// out [batch, queries, heads, value_head] from q [batch, queries, heads, head], k [batch, keys, key_heads, head] and
/// v [batch, keys, key_heads, value_head]; log_sum [batch, heads, queries], contiguous, or null. A query that sees
/// nothing gives 0 and -inf. With `adds` out and log_sum are those of other keys, and become those of both.
template <class T, class In = T>
struct AttentionForward {
  const In *q, *k, *v;
  HeadStrides q_at, k_at, v_at;
  T* out;
  HeadStrides out_at;
  T* log_sum;
};
template <class T, class In = T>
void attention(const AttentionShape& shape, const AttentionForward<T, In>& tensors);

/// d_q, d_k, d_v (written, not added to, but for d_q with `adds`) from what forward read and gave, and d_out. Of keys
/// that join others, `out` and `log_sum` are those of all.
template <class T, class In = T>
struct AttentionBackward {
  const In *q, *k, *v;
  HeadStrides q_at, k_at, v_at;
  const T* out;
  HeadStrides out_at;
  const T* log_sum;
  const In* d_out;
  HeadStrides d_out_at;
  T *d_q, *d_k, *d_v;
  HeadStrides d_q_at, d_k_at, d_v_at;
};
template <class T, class In = T>
void attention_backward(const AttentionShape& shape, const AttentionBackward<T, In>& tensors);

extern template void attention(const AttentionShape&, const AttentionForward<float>&);
extern template void attention(const AttentionShape&, const AttentionForward<double>&);
extern template void attention(const AttentionShape&, const AttentionForward<float, Bfloat16>&);
extern template void attention(const AttentionShape&, const AttentionForward<float, Float16>&);
extern template void attention_backward(const AttentionShape&, const AttentionBackward<float>&);
extern template void attention_backward(const AttentionShape&, const AttentionBackward<double>&);
extern template void attention_backward(const AttentionShape&, const AttentionBackward<float, Bfloat16>&);
extern template void attention_backward(const AttentionShape&, const AttentionBackward<float, Float16>&);

}  // namespace meshrt
