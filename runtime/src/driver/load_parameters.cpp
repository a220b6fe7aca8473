#include "driver/load_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "driver/elements.h"
#include "meshrt/failure.h"
#include "meshrt/safetensors.h"
#include "meshrt/tensors_io.h"

namespace meshrt {

namespace {

std::vector<int64_t> shape_of(const Tensor& tensor) {
  std::vector<int64_t> shape;
  for (const LocalDim& dim : tensor.dims) shape.push_back(dim.size);
  return shape;
}

void check(const Safetensors& file, std::span<const Tensor> tensors, const std::string& path) {
  std::string wrong;
  for (const Tensor& tensor : tensors) {
    if (tensor.role != Role::parameter) continue;
    const NamedArray* found = file.find(tensor.name);
    if (!found) wrong += fmt::format("\n  `{}` is not in the file", tensor.name);
    else if (found->shape != shape_of(tensor))
      wrong += fmt::format("\n  `{}` is [{}] in the file and [{}] in the program", tensor.name,
                           fmt::join(found->shape, ", "), fmt::join(shape_of(tensor), ", "));
    else if (is_float(found->type) != is_float(tensor.type))
      wrong += fmt::format("\n  `{}` is {} in the file and {} in the program", tensor.name, name_of(found->type),
                           name_of(tensor.type));
  }
  if (!wrong.empty()) throw Failure(Cause::data, fmt::format("`{}` does not fit the program:{}", path, wrong));
}

}  // namespace

void load_parameters(Rank& rank, std::span<Tensor> tensors, const std::string& path) {
  const Safetensors file = Safetensors::open(path);
  check(file, tensors, path);
  for (const Tensor& tensor : tensors) {
    if (tensor.role != Role::parameter) continue;
    std::vector<std::byte> whole;
    if (rank.rank() == 0) {
      const NamedArray& found = *file.find(tensor.name);
      int64_t count = 1;
      for (int64_t size : found.shape) count *= size;
      whole.resize(static_cast<size_t>(count) * size_of(tensor.type));
      convert(found.data.data(), {number_of(found.type)}, count, tensor.type, -1, whole.data());
    }
    scatter_tensor(rank, whole, tensor);
  }
}

}  // namespace meshrt
