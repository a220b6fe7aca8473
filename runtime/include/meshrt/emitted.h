// emitted.h: what a program written by meshc includes: everything it calls, and the small things that only it needs: a
// product in one line, part boundaries, the table of its tensors, and the frame that makes it a meshrt::Program.
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
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
#include "meshrt/combine.h"
#include "meshrt/conv.h"
#include "meshrt/deal.h"
#include "meshrt/finite.h"
#include "meshrt/gemm.h"
#include "meshrt/lanes.h"
#include "meshrt/lookup.h"
#include "meshrt/math.h"
#include "meshrt/one_pass.h"
#include "meshrt/ordered_sums.h"
#include "meshrt/pipeline.h"
#include "meshrt/plan.h"
#include "meshrt/pool.h"
#include "meshrt/profile.h"
#include "meshrt/program.h"
#include "meshrt/random.h"
#include "meshrt/rank.h"
#include "meshrt/rate.h"
#include "meshrt/redistribute.h"
#include "meshrt/ring.h"
#include "meshrt/route.h"
#include "meshrt/sample_key.h"
#include "meshrt/shared_reduction.h"
#include "meshrt/sort.h"
#include "meshrt/threads.h"
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
/// What lies in memory where a product takes a number as T.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, AsBfloat16>, float, T>;

/// What a product does beside c = a · b; see Product.
template <class T>
struct Extras {
  bool accumulate = false;
  Epilogue<T> epilogue = {};
  Bfloat16* rounded = nullptr;        ///< of `epilogue`, behind all else of it
  Bfloat16* rounded_alone = nullptr;  ///< the same where nobody reads c beside it
  T* column_sum = nullptr;
};

/// c [rows, cols] = a [rows, inner] · b [inner, cols], under the loops of `batch`, the first outermost.
template <class T, class A = T, class B = A>
void product(Matrix<const A> a, Matrix<const Stored<B>> b, Matrix<T> c, const Extents& extents,
             const Extras<T>& extras = {}, std::initializer_list<Batch> batch = {}) {
  const auto* const right = reinterpret_cast<const B*>(b.at);
  Product<T, A, B> one{
      extents.rows,      extents.cols,    extents.inner,    a.at, a.row, a.column, right, b.row, b.column, c.at, c.row,
      extras.accumulate, extras.epilogue, extras.column_sum};
  if (extras.rounded) one.epilogue.rounded = extras.rounded;
  if (extras.rounded_alone) one.epilogue.rounded = extras.rounded_alone, one.epilogue.rounded_alone = true;
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

/// Extents of attention, in the order of AttentionShape. How far a query sees otherwise, and where queries and keys
/// begin, is left open.
inline AttentionShape attention_shape(int64_t batch, int64_t heads, int64_t key_heads, int64_t queries, int64_t keys,
                                      int64_t head, int64_t value_head, double scale, bool causal) {
  return {batch, heads, key_heads, queries, keys, head, value_head, scale, causal ? 0 : -AttentionShape::unbounded};
}

template <class T, class In = T>
void attend(const AttentionShape& shape, Heads<const In> q, Heads<const In> k, Heads<const In> v, Heads<T> out,
            T* log_sum) {
  attention<T, In>(shape, {q.at, k.at, v.at, q.strides, k.strides, v.strides, out.at, out.strides, log_sum});
}

template <class T, class In = T>
void attend_backward(const AttentionShape& shape, Heads<const In> q, Heads<const In> k, Heads<const In> v,
                     Heads<const T> out, const T* log_sum, Heads<const In> d_out, Heads<T> d_q, Heads<T> d_k,
                     Heads<T> d_v) {
  attention_backward<T, In>(
      shape, {q.at, k.at, v.at, q.strides, k.strides, v.strides, out.at, out.strides, log_sum, d_out.at, d_out.strides,
              d_q.at, d_k.at, d_v.at, d_q.strides, d_k.strides, d_v.strides});
}

// ---- parts of dims -------------------------------------------------------------------------------------------------

/// Where the parts of a group's members begin, and the last one ends: parts first .. first + members of `parts` of
/// `size`.
template <int members>
std::array<int64_t, members + 1> boundaries(int64_t size, int64_t first, int64_t parts) {
  std::array<int64_t, members + 1> begin;
  for (int k = 0; k <= members; ++k) begin[static_cast<size_t>(k)] = part_begin(size, first + k, parts);
  return begin;
}

/// The same of a dim that is dealt.
template <int members>
std::array<int64_t, members + 1> boundaries(int64_t size, int64_t first, int64_t parts, const Deal& deal) {
  std::array<int64_t, members + 1> begin;
  for (int k = 0; k <= members; ++k) begin[static_cast<size_t>(k)] = part_begin(size, deal, first + k, parts);
  return begin;
}

// ---- collectives ---------------------------------------------------------------------------------------------------

// Plans of several values in one call.
template <std::same_as<Whole>... Values>
Plan plan_all_reduce(Rank& rank, const Group& group, Site site, Type type, Reduce reduce, Values... values) {
  const std::array<Whole, sizeof...(values)> all{values...};
  return plan_all_reduce(rank, group, site, std::span<const Whole>(all), type, reduce);
}
template <std::same_as<Scattered>... Values>
Plan plan_reduce_scatter(Rank& rank, const Group& group, Site site, Type type, Reduce reduce, Values... values) {
  const std::array<Scattered, sizeof...(values)> all{values...};
  return plan_reduce_scatter(rank, group, site, std::span<const Scattered>(all), type, reduce);
}
template <std::same_as<Gathered>... Values>
Plan plan_all_gather(Rank& rank, const Group& group, Site site, Type type, Values... values) {
  const std::array<Gathered, sizeof...(values)> all{values...};
  return plan_all_gather(rank, group, site, std::span<const Gathered>(all), type);
}

// ---- memory --------------------------------------------------------------------------------------------------------

/// Equal slices one behind the other: `x[l]` is what turn l of a loop sees.
template <class T>
struct Stack {
  T* all;
  int64_t slice;
  T* operator[](int64_t turn) const { return all + turn * slice; }
};

/// Stacks of equal slices: `x[t][l]` is what turn l of a loop sees in turn t of the one around it.
template <class T>
struct Stack<Stack<T>> {
  T* all;
  int64_t stack, slice;
  Stack<T> operator[](int64_t turn) const { return {all + turn * stack, slice}; }
};

/// A place in memory, as a pointer to its elements or as a Stack.
template <class T>
struct Place {
  T* at;
  int64_t slice;      ///< elements at one index of the first dim
  int64_t inner = 0;  ///< and of the second one
  operator T*() const { return at; }
  operator Stack<T>() const { return {at, slice}; }
  operator Stack<Stack<T>>() const { return {at, slice, inner}; }
};

/// The tensors of a program that outlive a step, as one rank holds them.
class TensorTable {
 public:
  TensorTable(const ProgramInfo& info, int rank) : info_(info), rank_(rank) {}
  /// `dims` in logical order with the axes that split them, as in "layer embed heads/model vocab/data*model",
  /// and the coordinate that alone holds it, as in "vocab embed pipe=1".
  const Tensor& add(Tensor tensor, std::string_view dims);
  std::span<Tensor> tensors() { return tensors_; }

 private:
  size_t axis_called(std::string_view name, const std::string& tensor) const;
  int coordinate(size_t axis) const;

  const ProgramInfo& info_;
  int rank_;
  std::vector<Tensor> tensors_;
};

/// What an emitted struct derives from: one rank, its memory, and what it was given for this step. Members of the
/// struct are places in memory; those that outlive a step are listed for input, checkpoints and messages as they are
/// made.
template <size_t arena_bytes, size_t own_bytes>
class Model {
 public:
  Model(Rank& rank, const ProgramInfo& info) : rank(rank), table_(info, rank.rank()) {}
  std::span<Tensor> tensors() { return table_.tensors(); }
  StepInput step = {};  ///< of the call under way

 protected:
  /// Where a tensor begins, in the space where its kind lies (parameters in the arena) unless another is named.
  struct Offset {
    size_t bytes;
    int space = 0;  // 1: arena, 2: own
    Offset(size_t bytes) : bytes(bytes) {}
    Offset(size_t bytes, int space) : bytes(bytes), space(space) {}
  };
  static Offset in_arena(size_t bytes) { return {bytes, 1}; }
  static Offset in_own(size_t bytes) { return {bytes, 2}; }

  /// An array like float[layer][batch][seq] at an offset.
  template <class Array, size_t offset>
  auto arena() const {
    static_assert(offset + sizeof(Array) <= arena_bytes, "the memory plan");
    return place<Array>(rank.arena() + offset);
  }
  template <class Array, size_t offset>
  auto own() const {
    static_assert(offset + sizeof(Array) <= own_bytes, "the memory plan");
    return place<Array>(rank.own() + offset);
  }
  /// Tensors by their path, dims (see TensorTable) and line in the spec.
  template <class T = float>
  Place<T> input_at(Offset at, std::string path, std::string_view dims, int line, int64_t index_bound = -1) {
    return list<T>(Role::input, at, 2, std::move(path), dims, line, {}, index_bound);
  }
  template <class T = float>
  Place<T> parameter_at(Offset at, std::string path, std::string_view dims, int line, Initial initial = {}) {
    return list<T>(Role::parameter, at, 1, std::move(path), dims, line, initial);
  }
  template <class T = float>
  Place<T> optimizer_at(Offset at, std::string path, std::string_view dims, int line, Initial initial = {}) {
    return list<T>(Role::optimizer, at, 2, std::move(path), dims, line, initial);
  }
  template <class T = float>
  Place<T> state_at(Offset at, std::string path, std::string_view dims, int line, Initial initial = {},
                    int64_t index_bound = -1) {
    return list<T>(Role::state, at, 2, std::move(path), dims, line, initial, index_bound);
  }
  template <class T = float>
  Place<T> cache_at(Offset at, std::string path, std::string_view dims, int line) {
    return list<T>(Role::cache, at, 2, std::move(path), dims, line, {});
  }
  /// What follows comes from this line of the spec: the profile of a run counts its time.
  static void at_line(const char* line) { meshrt::at_line(line); }
  // How tensors begin.
  static Initial ones() { return {Initial::Kind::ones}; }
  static Initial constant(double value) { return {Initial::Kind::constant, value}; }
  static Initial normal(double deviation, double mean = 0) { return {Initial::Kind::normal, mean, deviation}; }
  static Initial truncated_normal(double deviation, double mean = 0) {
    return {Initial::Kind::truncated_normal, mean, deviation};
  }
  static Initial uniform(double low, double high) { return {Initial::Kind::uniform, low, high}; }
  template <class T = float>
  Place<T> output_at(Offset at, std::string path, std::string_view dims, int line) {
    return list<T>(Role::output, at, 2, std::move(path), dims, line, {});
  }
  /// Lists what an entry carries from call to call.
  template <class T>
  static void carry(std::vector<Carried>& all, T* data, int64_t count, Reduce reduce) {
    all.push_back({data, count, type_of<T>, reduce});
  }
  /// This rank's coordinate on an axis.
  int64_t index_on(const Axis& axis) const { return rank.rank() / axis.stride % axis.size; }

  Rank& rank;

 private:
  template <class Array>
  static Place<std::remove_all_extents_t<Array>> place(std::byte* at) {
    using Element = std::remove_all_extents_t<Array>;
    using Slice = std::remove_extent_t<Array>;
    return {reinterpret_cast<Element*>(at), sizeof(Slice) / sizeof(Element),
            sizeof(std::remove_extent_t<Slice>) / sizeof(Element)};
  }
  template <class T>
  Place<T> list(Role role, Offset at, int space, std::string path, std::string_view dims, int line, Initial initial,
                int64_t index_bound = -1) {
    const bool in_arena = (at.space == 0 ? space : at.space) == 1;
    std::byte* const begin = (in_arena ? rank.arena() : rank.own()) + at.bytes;
    const Tensor& made =
        table_.add({std::move(path), role, type_of<T>, index_bound, {}, begin, true, initial, line}, dims);
    const int64_t elements = made.local_elements();
    const int64_t first = made.dims.empty() ? 1 : made.dims.front().end - made.dims.front().begin;
    return {reinterpret_cast<T*>(begin), first > 0 ? elements / first : 0};
  }

  TensorTable table_;
};

// ---- programs ------------------------------------------------------------------------------------------------------

/// An entry of a program: the member functions that Program calls, in the order of ProgramInfo::entries. One that
/// carries nothing from call to call has `run` alone.
template <class Made>
struct Entry {
  void (Made::*run)(std::span<double> results);
  void (Made::*finish)(std::span<double> results) = nullptr;
  void (Made::*carried)(std::vector<Carried>& all) = nullptr;
};

/// The Program of a struct that is made from a Rank, when the rank has its memory.
template <class Made, const ProgramInfo& (*program_info)(), const auto& entries>
class Emitted final : public Program {
 public:
  const ProgramInfo& info() const override { return program_info(); }
  void bind(Rank& rank) override { model_.emplace(rank); }
  std::span<Tensor> tensors() override { return model_->tensors(); }
  void run(size_t entry, const StepInput& input, std::span<double> results) override {
    model_->step = input;
    (*model_.*entries[entry].run)(results);
  }
  void carried(size_t entry, std::vector<Carried>& all) override {
    if (entries[entry].carried != nullptr) (*model_.*entries[entry].carried)(all);
  }
  void finish(size_t entry, std::span<double> results) override {
    if (entries[entry].finish != nullptr) (*model_.*entries[entry].finish)(results);
  }

 private:
  std::optional<Made> model_;
};

/// Adds dims to what is known of a program: "batch 16, seq 128".
void add_dims(ProgramInfo& info, std::string_view dims);
/// And settings of its optimizer: "beta1 0.9, clip 1".
void add_settings(ProgramInfo& info, std::string_view settings);
/// And what its memory holds, in KiB: "input 8, parameter 3352".
void add_memory(ProgramInfo& info, std::string_view memory);
/// And what the ranks of a coordinate use of a space's addresses, "arena" or "own", in KiB: "0-2048 6144-8192".
void add_used(ProgramInfo& info, size_t index, std::string_view space, std::string_view ranges);

}  // namespace meshrt
