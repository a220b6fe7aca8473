// attention_head.h: what forward and backward of attention share: which keys a query sees, and one head of a tensor.
#pragma once
#include "attention_operands.h"
#include "meshrt/attention.h"
#include "meshrt/lanes.h"

namespace meshrt::MESHRT_ISA {

// Keys [begin, end) of this part; both grow with the query.
struct Visible {
  int64_t begin, end;
};
inline Visible visible(const AttentionShape& s, int64_t query) {
  const int64_t position = s.query_at ? s.query_at[query] : s.query_begin + query;
  const int64_t at = position - s.key_begin;  // the query's place among the keys
  const int64_t begin = smaller(larger(0, at - s.most), s.keys);
  return {begin, larger(begin, smaller(s.keys, at - s.least + 1))};
}

// Queries of this part before global position `position`.
inline int64_t queries_before(const AttentionShape& s, int64_t position) {
  if (!s.query_at) return smaller(larger(position - s.query_begin, 0), s.queries);
  int64_t begin = 0, end = s.queries;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (s.query_at[middle] < position) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// Queries [begin, end) of this part that see at least one of keys [first, last).
inline Visible seeing(const AttentionShape& s, int64_t first, int64_t last) {
  const int64_t begin = queries_before(s, s.key_begin + first + s.least);
  return {begin, larger(begin, queries_before(s, s.key_begin + last + s.most))};
}

template <class T>
MESHRT_INLINE Head<T> head_of(T* tensor, const HeadStrides& strides, int64_t batch, int64_t head) {
  return {tensor + batch * strides.batch + head * strides.head, strides.seq};
}

}  // namespace meshrt::MESHRT_ISA
