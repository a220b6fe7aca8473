#include "codegen/interpret/arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "codegen/graph/builder.h"
#include "meshrt/failure.h"

namespace mesh {

namespace {

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <class T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

int64_t integer(Type type, const std::byte* at) {
  switch (type) {
    case Type::i32: return get<int32_t>(at);
    case Type::i64: return get<int64_t>(at);
    case Type::u8:
    case Type::boolean: return get<uint8_t>(at);
    default: internal_error(std::string(meshrt::name_of(type)) + " is no integer type");
  }
}

std::pair<int64_t, int64_t> limits_of(Type type) {
  switch (type) {
    case Type::i32: return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    case Type::u8: return {0, 255};
    case Type::boolean: return {0, 1};
    default: return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  }
}

void put_integer(std::byte* to, Type type, int64_t value) {
  switch (type) {
    case Type::i32: return put(to, static_cast<int32_t>(value));
    case Type::i64: return put(to, value);
    default: return put(to, static_cast<uint8_t>(value));
  }
}

void put_real(std::byte* to, Type type, double value) {
  if (type == Type::f64) return put(to, value);
  if (type == Type::bf16) return put(to, meshrt::Bfloat16(static_cast<float>(value)));
  if (type == Type::f16) return put(to, meshrt::Float16(static_cast<float>(value)));
  put(to, static_cast<float>(value));
}

// "[3, 0]": where element `at` of a row-major array lies.
std::string place_of(int64_t at, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0; at /= shape[i]) index[i] = at % shape[i];
  return fmt::format("[{}]", fmt::join(index, ", "));
}

}  // namespace

bool is_real(Type type) { return type == Type::f32 || type == Type::f64 || is_narrow(type); }

double element(Type type, const std::byte* at) {
  if (type == Type::f32) return get<float>(at);
  if (type == Type::f64) return get<double>(at);
  if (type == Type::bf16) return static_cast<float>(get<meshrt::Bfloat16>(at));
  if (type == Type::f16) return static_cast<float>(get<meshrt::Float16>(at));
  return static_cast<double>(integer(type, at));
}

meshrt::Array make_array(Type type, std::vector<int64_t> shape) {
  meshrt::Array array{type, std::move(shape), {}};
  array.data.resize(static_cast<size_t>(array.elements()) * meshrt::size_of(type));
  return array;
}

meshrt::Array fit_array(const meshrt::Array& from, Type type, const std::vector<int64_t>& shape,
                        const std::vector<std::string>& dim_names, int64_t index_bound, const std::string& what) {
  using meshrt::Cause;
  using meshrt::Failure;
  if (from.shape != shape) {
    std::vector<std::string> dims;
    for (size_t i = 0; i < shape.size(); ++i) dims.push_back(fmt::format("{} = {}", dim_names[i], shape[i]));
    throw Failure(Cause::data, fmt::format("{} has shape [{}], but needs [{}]", what, fmt::join(from.shape, ", "),
                                           fmt::join(dims, ", ")));
  }
  if (is_real(from.type) && !is_real(type))
    throw Failure(Cause::data, fmt::format("{} holds {} numbers, but needs {}: convert the array first", what,
                                           meshrt::name_of(from.type), meshrt::name_of(type)));
  meshrt::Array made = make_array(type, shape);
  const auto [low, high] = limits_of(type);
  const auto from_bytes = static_cast<int64_t>(meshrt::size_of(from.type)),
             to_bytes = static_cast<int64_t>(meshrt::size_of(type));
  for (int64_t i = 0; i < from.elements(); ++i) {
    const std::byte* const at = from.data.data() + i * from_bytes;
    std::byte* const to = made.data.data() + i * to_bytes;
    if (is_real(type)) {
      const double value = element(from.type, at);
      put_real(to, type, value);
      if (std::isfinite(value) && !std::isfinite(element(type, to)))
        throw Failure(Cause::data, fmt::format("{} holds {} at {}, which is beyond {}", what, value, place_of(i, shape),
                                               meshrt::name_of(type)));
      continue;
    }
    const int64_t value = integer(from.type, at);
    if (index_bound >= 0 && (value < 0 || value >= index_bound))
      throw Failure(Cause::data, fmt::format("{} holds {} at {}, but its indices must lie in 0 to {}", what, value,
                                             place_of(i, shape), index_bound - 1));
    if (value < low || value > high)
      throw Failure(Cause::data, fmt::format("{} holds {} at {}, which is no {}", what, value, place_of(i, shape),
                                             meshrt::name_of(type)));
    put_integer(to, type, value);
  }
  return made;
}

ArrayPart::ArrayPart(const meshrt::Tensor& part, const std::vector<size_t>& whole_order)
    : data_(static_cast<std::byte*>(part.data)), type_(part.type) {
  for (size_t i = 0; i < part.dims.size(); ++i) {
    int64_t stride = 1;
    for (size_t k = 0; k < part.dims.size(); ++k)
      if (whole_order[k] > whole_order[i]) stride *= part.dims[k].size;
    dims_.push_back({part.dims[i].ranges(), stride});
  }
}

int64_t ArrayPart::elements() const {
  int64_t product = 1;
  for (const Dim& dim : dims_) {
    int64_t extent = 0;
    for (const meshrt::IndexRange& range : dim.ranges) extent += range.size();
    product *= extent;
  }
  return product;
}

// visit(first in the whole array, first in the part, number, stride in the whole array) for every row of the part.
template <class Visit>
void ArrayPart::rows(size_t dim, int64_t whole_at, int64_t& part_at, const Visit& visit) const {
  if (dims_.empty()) return visit(whole_at, part_at, int64_t{1}, int64_t{1});
  for (const meshrt::IndexRange& range : dims_[dim].ranges) {
    if (dim + 1 < dims_.size()) {
      for (int64_t i = range.begin; i < range.end; ++i) rows(dim + 1, whole_at + i * dims_[dim].stride, part_at, visit);
      continue;
    }
    visit(whole_at + range.begin * dims_[dim].stride, part_at, range.size(), dims_[dim].stride);
    part_at += range.size();
  }
}

void ArrayPart::write(meshrt::Array& whole) const {
  const size_t bytes = meshrt::size_of(type_);
  int64_t part_at = 0;
  rows(0, 0, part_at, [&](int64_t at, int64_t from, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(whole.data.data() + static_cast<size_t>(at + i * stride) * bytes,
                  data_ + static_cast<size_t>(from + i) * bytes, bytes);
  });
}

void ArrayPart::read(const meshrt::Array& whole) const {
  const size_t bytes = meshrt::size_of(type_);
  int64_t part_at = 0;
  rows(0, 0, part_at, [&](int64_t at, int64_t to, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(data_ + static_cast<size_t>(to + i) * bytes,
                  whole.data.data() + static_cast<size_t>(at + i * stride) * bytes, bytes);
  });
}

double ArrayPart::difference(const meshrt::Array& whole) const {
  const size_t bytes = meshrt::size_of(type_);
  double largest = 0;
  int64_t part_at = 0;
  rows(0, 0, part_at, [&](int64_t at, int64_t from, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; ++i)
      largest = std::max(largest,
                         difference_of(element(type_, whole.data.data() + static_cast<size_t>(at + i * stride) * bytes),
                                       element(type_, data_ + static_cast<size_t>(from + i) * bytes)));
  });
  return largest;
}

double difference_of(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) == std::isnan(b) ? 0 : std::numeric_limits<double>::infinity();
  return a == b ? 0 : std::fabs(a - b);  // equal infinities have no difference
}

}  // namespace mesh
