// ring_program.h: a program for tests of checkpoints: parameters, optimizer state and a state of several shapes and
// types, on a mesh of any rows and columns, split and replicated in several ways, and a step that changes all of them
// with the step, the seed and the samples.
#pragma once
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "meshrt/collectives.h"
#include "meshrt/program.h"
#include "meshrt/random.h"

namespace meshrt {

class RingProgram : public Program {
 public:
  static constexpr int64_t batch = 4;

  RingProgram(int rows, int columns, Type real = Type::f64) : real_(real) {
    info_.name = "Ring";
    info_.spec = "ring.mesh";
    info_.spec_hash = "0123abcd";
    info_.layout = "tiles";
    info_.precision = name_of(real);
    info_.mesh = {{"rows", rows, columns}, {"columns", columns, 1}};
    info_.sample_dim = "batch";
    info_.sample_dims = {"batch"};
    info_.metrics = {"loss"};
    info_.entries = {{"train", 1}, {"evaluate", 1}};
    info_.arena_bytes = 4096;
    info_.own_bytes = size_t{1} << 16;
  }
  void set_optimizer(const std::string& name, const std::vector<std::pair<std::string, double>>& settings) {
    info_.optimizer = name;
    info_.settings = settings;
  }
  const ProgramInfo& info() const override { return info_; }
  std::span<Tensor> tensors() override { return tensors_; }

  void bind(Rank& rank) override {
    rank_ = &rank;
    next_ = rank.own();
    tensors_.clear();
    add("x", Role::input, Type::f64, {{"batch", batch}});
    add("tile", Role::parameter, real_, {{"a", 7, {0}}, {"b", 5}, {"c", 3, {1}}}, {Initial::Kind::normal, 0, 1});
    add("row", Role::parameter, real_, {{"b", 5, {0, 1}}}, {Initial::Kind::uniform, -1, 1});
    add("scale", Role::parameter, real_, {}, {Initial::Kind::constant, 2, 0});
    add("copied", Role::parameter, real_, {{"c", 3}, {"a", 7}}, {Initial::Kind::normal, 0, 1});
    add("tile.moment1", Role::optimizer, real_, {{"a", 7, {0}}, {"b", 5}, {"c", 3, {1}}});
    add("turns", Role::state, Type::i32, {{"b", 5, {1}}});
  }

  // Every number of every tensor is moved by what all ranks know and by its own global place.
  void run(size_t entry, const StepInput& input, std::span<double> metrics) override {
    if (entry > 0) return;
    const auto* x = static_cast<const double*>(tensors_[0].data);
    double sum = 0;
    for (int64_t i = 0; i < batch; ++i) sum += x[i] * static_cast<double>(i + 1);
    for (Tensor& tensor : tensors_)
      if (tensor.role != Role::input)
        move(tensor, sum, RandomKey(input.seed, tensor.name).at(static_cast<uint64_t>(input.step)));
    double loss = real_ == Type::f64 ? *static_cast<double*>(tensors_[3].data) : *static_cast<float*>(tensors_[3].data);
    loss += sum;
    metrics[0] = loss;
  }
  void carried(size_t, std::vector<Carried>&) override {}
  void finish(size_t entry, std::span<double> metrics) override {
    if (entry > 0) metrics[0] = 0;
  }

 private:
  struct Split {
    const char* name;
    int64_t size;
    std::vector<int> axes = {};
  };

  void add(const char* name, Role role, Type type, const std::vector<Split>& dims, Initial initial = {}) {
    Tensor tensor{.name = name, .role = role, .type = type, .dims = {}, .initial = initial};
    for (const Split& split : dims) {
      int64_t part = 0, parts = 1;
      for (const int axis : split.axes) {
        const MeshAxis& on = info_.mesh[static_cast<size_t>(axis)];
        part = part * on.size + rank_->rank() / on.stride % on.size;
        parts *= on.size;
      }
      tensor.dims.push_back({split.name, split.size, part_begin(split.size, part, parts),
                             part_begin(split.size, part + 1, parts), split.axes});
    }
    tensor.data = next_;
    next_ += 64 + tensor.local_elements() * static_cast<int64_t>(size_of(type)) / 64 * 64 + 64;
    tensors_.push_back(std::move(tensor));
  }

  template <class T>
  static void move_as(Tensor& tensor, double by, RandomKey key) {
    auto* to = static_cast<T*>(tensor.data);
    const auto& dims = tensor.dims;
    std::vector<int64_t> index(dims.size());
    for (int64_t i = 0; i < tensor.local_elements(); ++i) {
      int64_t rest = i, place = 0, stride = 1;
      for (size_t d = dims.size(); d-- > 0;) {
        const int64_t length = dims[d].end - dims[d].begin;
        place += (dims[d].begin + rest % length) * stride;
        stride *= dims[d].size;
        rest /= length;
      }
      if constexpr (std::is_integral_v<T>) to[i] += static_cast<T>(place + 1);
      else to[i] = static_cast<T>(to[i] * 0.9 + by * 0.01 * uniform<double>(key, place));
    }
  }
  static void move(Tensor& tensor, double by, RandomKey key) {
    if (tensor.type == Type::f64) move_as<double>(tensor, by, key);
    else if (tensor.type == Type::f32) move_as<float>(tensor, by, key);
    else move_as<int32_t>(tensor, by, key);
  }

  Type real_;
  ProgramInfo info_;
  std::vector<Tensor> tensors_;
  Rank* rank_ = nullptr;
  std::byte* next_ = nullptr;
};

}  // namespace meshrt
