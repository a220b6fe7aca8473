#include "meshrt/attention.h"

#include <algorithm>
#include <type_traits>

#include "attention_kernel.h"
#include "instruction_set.h"
#include "meshrt/profile.h"
#include "meshrt/threads.h"

namespace meshrt {
namespace {

/// part(shape, batch, head of keys) for each of them with the query heads that read it, on all threads of the rank.
template <class Part>
void by_key_heads(const AttentionShape& shape, const Part& part) {
  AttentionShape one = shape;
  one.batch = one.key_heads = 1;
  one.heads = shape.heads / shape.key_heads;
  share(shape.batch * shape.key_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) part(one, i / shape.key_heads, i % shape.key_heads);
  });
}

template <class T>
T* at(T* tensor, const HeadStrides& strides, int64_t batch, int64_t head) {
  return tensor + batch * strides.batch + head * strides.head;
}

/// Whether the mask hides all keys from all queries.
bool sees_nothing(const AttentionShape& s) {
  if (s.queries == 0 || s.keys == 0) return true;
  // Queries from `first` on and before `past` see some.
  const int64_t first = s.key_begin + s.least, past = s.key_begin + s.keys + s.most;
  if (!s.query_at) return s.query_begin + s.queries <= first || s.query_begin >= past;
  const int64_t* const at = std::lower_bound(s.query_at, s.query_at + s.queries, first);
  return at == s.query_at + s.queries || *at >= past;
}

/// The gradient of keys, or of values, that no query sees.
template <class T>
void clear(const AttentionShape& s, T* d, const HeadStrides& at, int64_t width) {
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t g = 0; g < s.key_heads; ++g)
      for (int64_t j = 0; j < s.keys; ++j) std::fill_n(d + b * at.batch + g * at.head + j * at.seq, width, T(0));
}

bool is_alone(const AttentionShape& shape) {
  return Threads::mine() == nullptr || shape.key_heads == 0 || shape.batch * shape.key_heads < 2;
}

template <class T, class In>
auto own_attention() {
  using Kernel = void (*)(const AttentionShape&, const AttentionForward<T, In>&);
#if defined(__x86_64__)
  if constexpr (std::is_same_v<In, Bfloat16>)
    if (instruction_set() >= InstructionSet::avx512_bf16) return Kernel(avx512_bf16::attention<T, In>);
#endif
  return choose<Kernel>(MESHRT_VARIANTS(attention<T, In>));
}
template <class T, class In>
auto own_attention_backward() {
  using Kernel = void (*)(const AttentionShape&, const AttentionBackward<T, In>&);
#if defined(__x86_64__)
  if constexpr (std::is_same_v<In, Bfloat16>)
    if (instruction_set() >= InstructionSet::avx512_bf16) return Kernel(avx512_bf16::attention_backward<T, In>);
#endif
  return choose<Kernel>(MESHRT_VARIANTS(attention_backward<T, In>));
}

}  // namespace

template <class T, class In>
void attention(const AttentionShape& shape, const AttentionForward<T, In>& tensors) {
  const Timed timed(&StepProfile::attention, [] { return TraceLabel{"attention"}; });
  static const auto kernel = own_attention<T, In>();
  if (shape.adds && sees_nothing(shape)) return;
  if (is_alone(shape)) return kernel(shape, tensors);
  by_key_heads(shape, [&](const AttentionShape& one, int64_t b, int64_t g) {
    AttentionForward<T, In> t = tensors;
    const int64_t h = g * one.heads;
    t.q = at(t.q, t.q_at, b, h);
    t.k = at(t.k, t.k_at, b, g);
    t.v = at(t.v, t.v_at, b, g);
    t.out = at(t.out, t.out_at, b, h);
    if (t.log_sum) t.log_sum += (b * shape.heads + h) * shape.queries;
    kernel(one, t);
  });
}

template <class T, class In>
void attention_backward(const AttentionShape& shape, const AttentionBackward<T, In>& tensors) {
  const Timed timed(&StepProfile::attention, [] { return TraceLabel{"attention backward"}; });
  static const auto kernel = own_attention_backward<T, In>();
  // A rank may own no query at all, or no head that reads these keys.
  const bool are_read = shape.heads > 0 && shape.queries > 0;
  if (!are_read || (shape.adds && sees_nothing(shape))) {
    clear(shape, tensors.d_k, tensors.d_k_at, shape.head);
    return clear(shape, tensors.d_v, tensors.d_v_at, shape.value_head);
  }
  if (is_alone(shape)) return kernel(shape, tensors);
  by_key_heads(shape, [&](const AttentionShape& one, int64_t b, int64_t g) {
    AttentionBackward<T, In> t = tensors;
    const int64_t h = g * one.heads;
    t.q = at(t.q, t.q_at, b, h);
    t.k = at(t.k, t.k_at, b, g);
    t.v = at(t.v, t.v_at, b, g);
    t.out = at(t.out, t.out_at, b, h);
    t.log_sum += (b * shape.heads + h) * shape.queries;
    t.d_out = at(t.d_out, t.d_out_at, b, h);
    t.d_q = at(t.d_q, t.d_q_at, b, h);
    t.d_k = at(t.d_k, t.d_k_at, b, g);
    t.d_v = at(t.d_v, t.d_v_at, b, g);
    kernel(one, t);
  });
}

template void attention(const AttentionShape&, const AttentionForward<float>&);
template void attention(const AttentionShape&, const AttentionForward<double>&);
template void attention(const AttentionShape&, const AttentionForward<float, Bfloat16>&);
template void attention(const AttentionShape&, const AttentionForward<float, Float16>&);
template void attention_backward(const AttentionShape&, const AttentionBackward<float>&);
template void attention_backward(const AttentionShape&, const AttentionBackward<double>&);
template void attention_backward(const AttentionShape&, const AttentionBackward<float, Bfloat16>&);
template void attention_backward(const AttentionShape&, const AttentionBackward<float, Float16>&);

}  // namespace meshrt
