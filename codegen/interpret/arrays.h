// arrays.h: whole arrays and the parts of them that ranks hold; the numbers of one type as those of another.
#pragma once
#include <string>
#include <vector>

#include "codegen/program/program.h"
#include "meshrt/npy.h"
#include "meshrt/tensor.h"
#include "meshrt/types.h"

namespace mesh {

/// The types that hold floats.
bool is_real(Type);

/// Zeros of this type and shape.
meshrt::Array make_array(Type, std::vector<int64_t> shape);

/// The array as the tensor's numbers: floats of any width and integers become the tensor's floats, integers its
/// integers. Throws meshrt::Failure (Cause::data) that begins with `what` ("feed `label`"): another shape or kind of
/// number, a number that the type does not have, an index not below its bound.
meshrt::Array fit_array(const meshrt::Array&, Type, const std::vector<int64_t>& shape,
                        const std::vector<std::string>& dim_names, int64_t index_bound, const std::string& what);

/// How one rank's part lies in a whole array.
class ArrayPart {
 public:
  /// `part` has its dims in the order of memory, `whole_order[i]` is the position of its dim i in the whole array.
  ArrayPart(const meshrt::Tensor& part, const std::vector<size_t>& whole_order);
  int64_t elements() const;
  void write(meshrt::Array& whole) const;       // part -> whole
  void read(const meshrt::Array& whole) const;  // whole -> part
  /// The largest |part - whole|; infinity where one is NaN and the other is not.
  double difference(const meshrt::Array& whole) const;

 private:
  template <class Visit>
  void rows(size_t dim, int64_t whole_at, int64_t& part_at, const Visit&) const;

  struct Dim {
    std::vector<meshrt::IndexRange> ranges;  // of indices that are here, in this order
    int64_t stride;                          // in the whole array
  };
  std::byte* data_;
  Type type_;
  std::vector<Dim> dims_;
};

/// An element as a double; i64 beyond 2^53 is rounded.
double element(Type, const std::byte* at);
/// |a - b|; 0 for two NaN or equal infinities, infinity for one NaN.
double difference_of(double a, double b);

}  // namespace mesh
