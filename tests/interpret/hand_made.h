// hand_made.h: programs built step by step, run on ranks that are threads, their buffers filled and read as plain
// arrays.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/interpret/binding.h"
#include "codegen/program/program.h"

namespace mesh::tests {

/// One rank's view of the buffers while a test fills and checks them.
struct View {
  const Binding& binding;
  int rank() const { return binding.rank.rank(); }
  template <class T>
  std::span<T> of(BufferId id) const {
    EXPECT_EQ(binding.program.buffer(id).type, meshrt::type_of<T>);
    return {reinterpret_cast<T*>(binding.memory(id)),
            static_cast<size_t>(local_elements(binding.program, binding.program.buffer(id), rank()))};
  }
  Range range(const LocalDim& dim) const { return binding.range(dim); }
};

class HandMade {
 public:
  explicit HandMade(std::vector<std::pair<std::string, int64_t>> axes = {});

  DimId dim(const std::string& name, int64_t size);
  BufferId buffer(const std::string& name, Type type, std::vector<LocalDim> dims, Space space = Space::arena);
  LoopId loop() { return LoopId{program.loops++}; }
  void add(StepKind step) { steps.push_back({std::move(step), Part::forward, {}, "", {}}); }
  /// A movement over ranks between two buffers of equal dims.
  void add_collective(CollectiveKind, BufferId from, BufferId to, std::vector<AxisId> axes, int from_dim, int to_dim,
                      Reduce = Reduce::sum);

  /// Makes every collective of several ranks two steps: its start, and its wait with a step in between.
  void start_and_wait();

  /// On every rank: `fill`, the steps `times` times, `check`. Fails the test where a rank fails.
  void run(const std::function<void(const View&)>& fill, const std::function<void(const View&)>& check, int times = 1,
           meshrt::StepInput = {});

  Program program;
  std::vector<Step> steps;
};

inline LocalDim whole(DimId dim) { return {dim, {}}; }
inline LocalDim split(DimId dim, std::vector<AxisId> axes) { return {dim, {std::move(axes)}}; }

/// A pass of scalars in SSA form, written down as they come.
class PassMaker {
 public:
  explicit PassMaker(const Program& program, std::vector<LocalDim> inner) : program_(program) {
    pass.inner = std::move(inner);
  }
  int load(BufferId buffer, std::vector<TurnIndex> turns = {}) {
    return add(Scalar::Load{{buffer, std::move(turns)}}, program_.buffer(buffer).type);
  }
  int literal(double value, Type type) { return add(Scalar::Literal{value}, type); }
  int index(DimId dim) { return add(Scalar::Index{dim}, Type::i32); }
  int turn(LoopId loop) { return add(Scalar::Turn{loop}, Type::i32); }
  int row(int row, Type type) { return add(Scalar::Row{row}, type); }
  int apply(MapFunction function, std::vector<int> operands);
  int cast(int scalar, Type type) { return add(Scalar::Apply{MapFunction::cast, {scalar}}, type); }
  int add(decltype(Scalar::what) what, Type type) {
    pass.scalars.push_back({std::move(what), type});
    return static_cast<int>(pass.scalars.size()) - 1;
  }
  void store(int scalar, BufferId to, std::vector<TurnIndex> turns = {}) {
    pass.stores.push_back({scalar, {to, std::move(turns)}});
  }
  void reduce(int scalar, Reduce reduce, int row, bool arg = false) {
    pass.reductions.push_back({scalar, reduce, row, arg});
  }
  void accumulate(int scalar, Reduce reduce, BufferId to, bool adds = false) {
    pass.accumulates.push_back({scalar, reduce, {to, {}}, adds});
  }
  Pass pass;

 private:
  const Program& program_;
};

/// Numbers between -1 and 1 that depend on `seed` and the place alone.
template <class T>
void fill_numbers(std::span<T> to, uint64_t seed) {
  for (size_t i = 0; i < to.size(); ++i) {
    uint64_t x = (seed * 0x9e3779b97f4a7c15u + i + 1) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    x *= 0x94d049bb133111ebu;
    to[i] = static_cast<T>(static_cast<double>(x >> 11) * 0x1p-52 - 1);
  }
}

}  // namespace mesh::tests
