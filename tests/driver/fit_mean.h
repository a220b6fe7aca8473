// fit_mean.h: a small program for tests of the driver: one number is fitted to the mean of the data by gradient
// descent, the batch of six split over the ranks.
#pragma once
#include <cmath>
#include <span>
#include <vector>

#include "meshrt/collectives.h"
#include "meshrt/program.h"

namespace meshrt {

class FitMean : public Program {
 public:
  static constexpr int64_t batch = 6;

  explicit FitMean(int ranks, double blow_up_at = -1) : blow_up_at_(blow_up_at) {
    info_.name = "FitMean";
    info_.spec = "fit.mesh";
    info_.spec_hash = "0123abcd";
    info_.layout = "data";
    info_.mesh = {{"all", ranks, 1}};
    info_.dims = {{"batch", batch}};
    info_.sample_dim = "batch";
    info_.sample_dims = {"batch"};
    info_.metrics = {"loss", "distance"};
    info_.watched = {{"grad_norm", ""}, {"w", "**"}};
    info_.outputs = {"w", "x"};
    info_.entries = {{"train", 4}, {"evaluate", 2}};
    info_.rate = 0.1;
    info_.arena_bytes = 4096;
    info_.own_bytes = 4096;
  }
  /// As if it needed more memory.
  void grow(int64_t bytes) {
    info_.own_bytes += bytes;
    info_.memory = {{"activation", bytes}};
  }
  const ProgramInfo& info() const override { return info_; }
  void bind(Rank& rank) override {
    rank_ = &rank;
    const Axis all[] = {{rank.ranks(), 1}};
    group_ = &rank.group(all);
    LocalDim dim{"batch",
                 batch,
                 part_begin(batch, rank.rank(), rank.ranks()),
                 part_begin(batch, rank.rank() + 1, rank.ranks()),
                 {0}};
    Tensor x{.name = "x", .role = Role::input, .type = Type::f32, .dims = {dim}, .initial = {}};
    x.data = rank.own();
    Tensor w{.name = "w",
             .role = Role::parameter,
             .type = Type::f32,
             .dims = {},
             .initial = {Initial::Kind::constant, 4, 0}};
    w.data = rank.own() + 1024;
    w.primary = rank.rank() == 0;
    tensors_ = {x, w};
  }
  std::span<Tensor> tensors() override { return tensors_; }
  void run(size_t entry, const StepInput& input, std::span<double> results) override {
    if (entry == 0) step(input, results);
    else sum_ += summed([](double d) { return d * d; }), count_ += batch;
  }
  void finish(size_t entry, std::span<double> metrics) override {
    if (entry == 0) return;
    metrics[0] = sum_ / count_;
    metrics[1] = std::sqrt(metrics[0]);
  }
  void carried(size_t entry, std::vector<Carried>& all) override {
    if (entry == 0) return;
    for (double* one : {&sum_, &count_}) all.push_back({one, 1, Type::f64, Reduce::sum});
  }

 private:
  void step(const StepInput& input, std::span<double> metrics) {
    const double sum = summed([&](double d) { return -2 * d; }), loss = summed([](double d) { return d * d; });
    const double rate = input.rate < 0 ? info_.rate : input.rate;
    metrics[2] = std::abs(sum / batch);
    metrics[3] = std::abs(weight());
    weight() = static_cast<float>(weight() - rate * sum / batch);
    metrics[0] = input.step == blow_up_at_ ? std::nan("") : loss / batch;
    metrics[1] = std::sqrt(loss / batch);
  }
  float& weight() { return *static_cast<float*>(tensors_[1].data); }
  template <class Function>
  double summed(Function function) {
    double sum = 0;
    const auto* x = static_cast<const float*>(tensors_[0].data);
    for (int64_t i = 0; i < tensors_[0].local_elements(); ++i) sum += function(x[i] - weight());
    all_reduce(*rank_, *group_, {0, "sum"}, &sum, 1, Type::f64, Reduce::sum);
    return sum;
  }

  ProgramInfo info_;
  std::vector<Tensor> tensors_;
  Rank* rank_ = nullptr;
  const Group* group_ = nullptr;
  double blow_up_at_, sum_ = 0, count_ = 0;
};

}  // namespace meshrt
