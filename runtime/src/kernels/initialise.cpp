// initialise.cpp: the first values of parameters and state, from the seed and each tensor's path.
#include <algorithm>
#include <array>

#include "files/tensor_runs.h"
#include "meshrt/failure.h"
#include "meshrt/random.h"
#include "meshrt/tensor.h"
#include "meshrt/threads.h"

namespace meshrt {
namespace {

double constant_of(const Initial& initial) {
  switch (initial.kind) {
    case Initial::Kind::ones: return 1;
    case Initial::Kind::constant: return initial.a;
    default: return 0;
  }
}

template <class T>
void fill_constant(const Tensor& tensor) {
  fill(static_cast<T*>(tensor.data), tensor.local_elements(), static_cast<T>(constant_of(tensor.initial)));
}

bool is_random(const Initial& initial) {
  using Kind = Initial::Kind;
  return initial.kind == Kind::normal || initial.kind == Kind::truncated_normal || initial.kind == Kind::uniform;
}

/// What the whole tensor has at `parts`.
template <class T>
void draw(const Tensor& tensor, uint64_t seed, T* to, std::span<const Part> parts) {
  const RandomKey key(seed, tensor.name);
  const Initial& initial = tensor.initial;
  switch (initial.kind) {
    case Initial::Kind::normal: return fill_normal(to, parts, key, initial.a, initial.b);
    case Initial::Kind::truncated_normal: return fill_truncated_normal(to, parts, key, initial.a, initial.b);
    default: return fill_uniform(to, parts, key, initial.a, initial.b);
  }
}

/// visit(part, element of this rank's memory) for stretches that lie in one piece in the whole tensor and here, on all
/// threads of the rank.
template <class Visit>
void share_stretches(const Tensor& tensor, const Visit& visit) {
  int64_t elements = 1;
  for (const LocalDim& dim : tensor.dims) elements *= dim.size;
  const std::vector<Extent> extents = extents_of(tensor);
  share(tensor.local_elements(), enough(elements_of_a_number), [&](int64_t first, int64_t last) {
    for_each_run(extents, first, last, [&](int64_t whole, int64_t at, int64_t count) {
      visit(Part{elements, whole, whole + count}, at);
    });
  });
}

template <class T>
void fill_real(const Tensor& tensor, uint64_t seed) {
  if (!is_random(tensor.initial)) return fill_constant<T>(tensor);
  T* const to = static_cast<T*>(tensor.data);
  std::vector<Part> parts;
  for (const LocalDim& dim : tensor.dims) parts.push_back({dim.size, dim.begin, dim.end});
  const bool dealt = std::ranges::any_of(tensor.dims, [](const LocalDim& dim) { return bool(dim.deal); });
  if (!dealt) return draw(tensor, seed, to, parts);
  share_stretches(tensor, [&](const Part& part, int64_t at) { draw(tensor, seed, to + at, {&part, 1}); });
}

/// Of a type of 16 bits: the numbers that f32 has, rounded to the nearest.
template <class T>
void fill_narrow(const Tensor& tensor, uint64_t seed) {
  if (!is_random(tensor.initial)) return fill_constant<T>(tensor);
  share_stretches(tensor, [&](Part part, int64_t at) {
    std::array<float, 4096> drawn;
    for (auto* to = static_cast<T*>(tensor.data) + at; part.begin < part.end;) {
      const Part some{part.size, part.begin, std::min(part.end, part.begin + static_cast<int64_t>(drawn.size()))};
      draw(tensor, seed, drawn.data(), {&some, 1});
      for (int64_t i = 0; i < some.end - some.begin; ++i) *to++ = T(drawn[static_cast<size_t>(i)]);
      part.begin = some.end;
    }
  });
}

void fill(const Tensor& tensor, uint64_t seed) {
  switch (tensor.type) {
    case Type::f32: return fill_real<float>(tensor, seed);
    case Type::f64: return fill_real<double>(tensor, seed);
    case Type::bf16: return fill_narrow<Bfloat16>(tensor, seed);
    case Type::f16: return fill_narrow<Float16>(tensor, seed);
    default: break;
  }
  if (!is_random(tensor.initial)) switch (tensor.type) {
      case Type::i32: return fill_constant<int32_t>(tensor);
      case Type::i64: return fill_constant<int64_t>(tensor);
      case Type::u8: return fill_constant<uint8_t>(tensor);
      case Type::boolean: return fill_constant<bool>(tensor);
      default: break;
    }
  throw Failure(Cause::usage, "`" + tensor.name + "` is " + name_of(tensor.type) +
                                  ": only floats can start from random numbers; declare it f32 and cast where it is "
                                  "used");
}

}  // namespace

void initialise(std::span<Tensor> tensors, uint64_t seed) {
  for (const Tensor& tensor : tensors)
    if (tensor.role == Role::parameter || tensor.role == Role::optimizer || tensor.role == Role::state)
      fill(tensor, seed);
}

}  // namespace meshrt
