// ckpt_mean.cpp: the mean of what several checkpoints of one run have, as recipes take it of the last ones.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "codegen/commands/ckpt.h"
#include "meshrt/checkpoint.h"
#include "meshrt/failure.h"

namespace mesh {

using meshrt::NamedArray, meshrt::SavedTensors, meshrt::Type;

namespace {

void require_alike(const NamedArray& tensor, const SavedTensors& of, const NamedArray* other, const SavedTensors& in) {
  if (other != nullptr && other->shape == tensor.shape) return;
  throw meshrt::Failure(meshrt::Cause::data,
                        other == nullptr
                            ? fmt::format("`{}` has `{}`, and `{}` has not: a mean is of checkpoints of one model",
                                          of.path(), tensor.name, in.path())
                            : fmt::format("`{}` is {} in `{}` and {} in `{}`: a mean is of checkpoints of one model",
                                          tensor.name, shape_text(tensor.type, tensor.shape), of.path(),
                                          shape_text(other->type, other->shape), in.path()));
}

}  // namespace

void require_alike(const SavedTensors& first, std::span<const SavedTensors> others) {
  for (const SavedTensors& other : others) {
    for (const NamedArray& tensor : first.tensors())
      if (!first.of_optimizer(tensor.name)) require_alike(tensor, first, other.find(tensor.name), other);
    for (const NamedArray& tensor : other.tensors())
      if (!other.of_optimizer(tensor.name)) require_alike(tensor, other, first.find(tensor.name), first);
  }
}

std::vector<std::byte> mean_of(const NamedArray& first, std::span<const SavedTensors> others) {
  const size_t count = first.data.size() / size_of(first.type);
  std::vector<std::byte> sums(count * sizeof(double));
  for (size_t begin = 0; begin < count; begin += numbers_at_once) {
    const size_t length = std::min(numbers_at_once, count - begin);
    std::vector<double> sum = numbers_of(first, begin, length);
    for (const SavedTensors& other : others) {
      const std::vector<double> more = numbers_of(*other.find(first.name), begin, length);
      for (size_t i = 0; i < length; ++i) sum[i] += more[i];
    }
    for (double& number : sum) number /= static_cast<double>(1 + others.size());
    std::memcpy(sums.data() + begin * sizeof(double), sum.data(), length * sizeof(double));
  }
  NamedArray mean = first;
  mean.type = Type::f64;
  mean.data = sums;
  return numbers_as(first.type, mean);
}

}  // namespace mesh
