// emitted.h: what a program written by meshc includes: everything it calls, and the small things that only it needs: a
// product in one line, part boundaries, the table of its tensors, and the frame that makes it a meshrt::Program.
#pragma once
#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "meshrt/activation.h"
#include "meshrt/attention.h"
#include "meshrt/collectives.h"
#include "meshrt/gemm.h"
#include "meshrt/lanes.h"
#include "meshrt/lookup.h"
#include "meshrt/math.h"
#include "meshrt/program.h"
#include "meshrt/random.h"
#include "meshrt/rank.h"
#include "meshrt/rate.h"
#include "meshrt/sort.h"
#include "meshrt/types.h"

namespace meshrt {

// ---- products ------------------------------------------------------------------------------------------------------

/// Element (i, j) lies at at[i * row + j * column].
template <class T>
struct Matrix {
  T* at;
  int64_t row = 0, column = 1;
};
struct Extents {
  int64_t rows, inner, cols;
};
/// What a product does beside c = a · b; see Product.
template <class T>
struct Extras {
  bool accumulate = false;
  Finish<T> finish = {};
  T* column_sum = nullptr;
};

/// c [rows, cols] = a [rows, inner] · b [inner, cols], under the loops of `batch`, the first outermost.
template <class T>
void product(Matrix<const T> a, Matrix<const T> b, Matrix<T> c, const Extents& extents, const Extras<T>& extras = {},
             std::initializer_list<Batch> batch = {}) {
  const Product<T> one{
      extents.rows,      extents.cols,  extents.inner,    a.at, a.row, a.column, b.at, b.row, b.column, c.at, c.row,
      extras.accumulate, extras.finish, extras.column_sum};
  if (batch.size() == 0) multiply(one);
  else multiply_batch(one, std::span(batch.begin(), batch.size()));
}

// ---- attention ------------------------------------------------------------------------------------------------------

/// A tensor [batch, seq, heads, head] by its distances.
template <class T>
struct Heads {
  T* at;
  HeadStrides strides = {};
};

/// Extents of attention, in the order of AttentionShape; `window`, `query_begin` and `key_begin` are left at 0.
inline AttentionShape attention_shape(int64_t batch, int64_t heads, int64_t key_heads, int64_t queries, int64_t keys,
                                      int64_t head, int64_t value_head, double scale, bool causal) {
  return {batch, heads, key_heads, queries, keys, head, value_head, scale, causal};
}

template <class T>
void attend(const AttentionShape& shape, Heads<const T> q, Heads<const T> k, Heads<const T> v, Heads<T> out,
            T* log_sum) {
  attention<T>(shape, {q.at, k.at, v.at, q.strides, k.strides, v.strides, out.at, out.strides, log_sum});
}

template <class T>
void attend_backward(const AttentionShape& shape, Heads<const T> q, Heads<const T> k, Heads<const T> v,
                     Heads<const T> out, const T* log_sum, Heads<const T> d_out, Heads<T> d_q, Heads<T> d_k,
                     Heads<T> d_v) {
  attention_backward<T>(
      shape, {q.at, k.at, v.at, q.strides, k.strides, v.strides, out.at, out.strides, log_sum, d_out.at, d_out.strides,
              d_q.at, d_k.at, d_v.at, d_q.strides, d_k.strides, d_v.strides});
}

// ---- stacked buffers -----------------------------------------------------------------------------------------------

/// Equal slices one behind the other, of an array type: `x[l]` is what turn l of a loop sees of
/// float[layer][batch][seq].
template <class Array>
struct Stack {
  using Element = std::remove_all_extents_t<Array>;
  static constexpr int64_t slice = sizeof(std::remove_extent_t<Array>) / sizeof(Element);
  Element* all;
  Element* operator[](int64_t turn) const { return all + turn * slice; }
};

/// A place in memory of `limit` bytes, which a Stack that fits may take.
template <size_t offset, size_t limit>
struct StackPlace {
  std::byte* memory;
  template <class Array>
  operator Stack<Array>() const {
    static_assert(offset + sizeof(Array) <= limit, "the memory plan");
    return {reinterpret_cast<typename Stack<Array>::Element*>(memory + offset)};
  }
};

// ---- parts of dims -------------------------------------------------------------------------------------------------

/// Where the parts of a group's members begin, and the last one ends: parts first .. first + members of `parts` of
/// `size`.
template <int members>
std::array<int64_t, members + 1> boundaries(int64_t size, int64_t first, int64_t parts) {
  std::array<int64_t, members + 1> begin;
  for (int k = 0; k <= members; ++k) begin[static_cast<size_t>(k)] = part_begin(size, first + k, parts);
  return begin;
}

// ---- tensors -------------------------------------------------------------------------------------------------------

/// The tensors of a program as one rank holds them.
class TensorTable {
 public:
  TensorTable(const ProgramInfo& info, int rank) : info_(info), rank_(rank) {}
  /// `dims` in logical order with the axes that split them, as in "layer embed heads/model vocab/data*model".
  template <class T>
  void add(std::string name, Role role, T* data, std::string_view dims, int line, Initial initial = {},
           int64_t index_bound = -1) {
    add({std::move(name), role, type_of<T>, index_bound, {}, data, true, initial, line}, dims);
  }
  std::span<Tensor> tensors() { return tensors_; }

 private:
  void add(Tensor tensor, std::string_view dims);

  const ProgramInfo& info_;
  int rank_;
  std::vector<Tensor> tensors_;
};

// ---- programs ------------------------------------------------------------------------------------------------------

/// The Program of a struct that is made from a Rank, when the rank has its memory.
template <class Model>
class Emitted final : public Program {
 public:
  const ProgramInfo& info() const override { return Model::info(); }
  void bind(Rank& rank) override {
    model_.emplace(rank);
    table_.emplace(info(), rank.rank());
    model_->list_tensors(*table_);
  }
  std::span<Tensor> tensors() override { return table_->tensors(); }
  void train_step(const StepInput& input, std::span<double> metrics) override { model_->train_step(input, metrics); }
  void evaluate_reset() override { model_->evaluate_reset(); }
  void evaluate_step() override { model_->evaluate_step(); }
  void evaluate_finish(std::span<double> metrics) override { model_->evaluate_finish(metrics); }

 private:
  std::optional<Model> model_;
  std::optional<TensorTable> table_;
};

}  // namespace meshrt
