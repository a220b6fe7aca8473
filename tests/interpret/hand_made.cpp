#include "tests/interpret/hand_made.h"

#include "codegen/interpret/steps.h"
#include "codegen/program/overlap.h"
#include "meshrt/launch.h"

namespace mesh::tests {

HandMade::HandMade(std::vector<std::pair<std::string, int64_t>> axes) {
  program.sharded.graph.bodies.emplace_back();
  std::vector<MeshAxis>& mesh = program.sharded.layout.mesh.axes;
  int64_t stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    mesh.insert(mesh.begin(), {axis->first, axis->second, stride, {}});
    stride *= axis->second;
  }
}

DimId HandMade::dim(const std::string& name, int64_t size) {
  program.sharded.graph.dims.push_back({name, size, "", {}});
  return {static_cast<uint32_t>(program.sharded.graph.dims.size() - 1)};
}

BufferId HandMade::buffer(const std::string& name, Type type, std::vector<LocalDim> dims, Space space) {
  Buffer made{name, name, type, std::move(dims), BufferKind::activation, space, {}, {}, 0, 0, {}};
  made.elements = largest_elements(program, made);
  int64_t& end = space == Space::arena ? program.memory.arena : program.memory.own;
  made.offset = end;
  end += (made.elements * static_cast<int64_t>(meshrt::size_of(type)) + 127) / 64 * 64;
  program.buffers.push_back(std::move(made));
  return {static_cast<uint32_t>(program.buffers.size() - 1)};
}

void HandMade::add_collective(CollectiveKind kind, BufferId from, BufferId to, std::vector<AxisId> axes, int from_dim,
                              int to_dim, Reduce reduce) {
  CollectiveStep step{};
  step.kind = kind;
  step.from = {from, {}};
  step.to = {to, {}};
  step.axes = axes;
  step.from_dim = from_dim;
  step.to_dim = to_dim;
  step.before = program.buffer(from).dims;
  step.after = program.buffer(to).dims;
  step.reduce = reduce;
  step.step = static_cast<uint32_t>(program.sharded.steps.size());
  program.sharded.steps.push_back({kind, std::move(axes), from_dim, to_dim, {}, reduce, 0, 0, "test", {}});
  add(std::move(step));
}

void HandMade::start_and_wait() {
  const BufferId meanwhile = buffer("meanwhile", Type::f32, {whole(dim("turn", 3))}, Space::own);
  Steps made;
  for (Step& step : steps) {
    const std::span<CollectiveStep> call = movements(step);
    if (call.empty() || call.front().axes.empty()) {
      made.push_back(step);
      continue;
    }
    for (CollectiveStep& one : call) one.phase = CollectiveStep::Phase::start;
    made.push_back(step);
    made.push_back({FillStep{{meanwhile, {}}, 1}, Part::forward, {}, "", {}});
    for (CollectiveStep& one : call) one.phase = CollectiveStep::Phase::wait;
    made.push_back(step);
  }
  steps = std::move(made);
}

void HandMade::run(const std::function<void(const View&)>& fill, const std::function<void(const View&)>& check,
                   int times, meshrt::StepInput input) {
  const auto ranks = static_cast<int>(program.sharded.layout.mesh.ranks());
  const int code = meshrt::launch_threads(ranks, [&](meshrt::Rank& rank) {
    rank.allocate(static_cast<size_t>(program.memory.arena), static_cast<size_t>(program.memory.own));
    Binding binding(program, rank);
    binding.input = input;
    const std::vector<Task> tasks = bind_steps(binding, steps);
    fill({binding});
    for (int i = 0; i < times; ++i)
      for (const Task& task : tasks) task();
    check({binding});
    return 0;
  });
  EXPECT_EQ(code, 0);
}

int PassMaker::apply(MapFunction function, std::vector<int> operands) {
  const Scalar& like = pass.scalars[static_cast<size_t>(operands[function == MapFunction::where ? 1 : 0])];
  const Type type = info(function).to_boolean ? Type::boolean : like.type;
  return add(Scalar::Apply{function, std::move(operands)}, type);
}

}  // namespace mesh::tests
