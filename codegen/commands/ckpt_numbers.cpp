// ckpt_numbers.cpp: the numbers of a checkpoint's tensors, whatever their type, some at a time.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "codegen/commands/ckpt.h"
#include "meshrt/checkpoint.h"

namespace mesh {

using meshrt::NamedArray, meshrt::Type;

bool is_float(Type type) { return type == Type::f64 || type == Type::f32 || type == Type::bf16 || type == Type::f16; }

std::vector<double> numbers_of(const NamedArray& tensor, size_t first, size_t count) {
  NamedArray some = tensor;
  some.data = tensor.data.subspan(first * size_of(tensor.type), count * size_of(tensor.type));
  const std::vector<std::byte> bytes = numbers_as(Type::f64, some);
  std::vector<double> numbers(count);
  if (count > 0) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

int64_t not_finite(const NamedArray& tensor) {
  if (!is_float(tensor.type)) return 0;
  const size_t count = tensor.data.size() / size_of(tensor.type);
  int64_t found = 0;
  for (size_t begin = 0; begin < count; begin += numbers_at_once)
    found += std::ranges::count_if(numbers_of(tensor, begin, std::min(numbers_at_once, count - begin)),
                                   [](double number) { return !std::isfinite(number); });
  return found;
}

}  // namespace mesh
