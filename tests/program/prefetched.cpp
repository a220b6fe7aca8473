#include "tests/program/prefetched.h"

#include <map>
#include <set>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/memory.h"
#include "codegen/program/walk.h"

namespace mesh::tests {

namespace {

class Prefetch {
 public:
  explicit Prefetch(Program& program) : program_(program), two_{static_cast<uint32_t>(dims().size())} {
    dims().push_back({"two", 2, "", {}});
  }

  /// Copies stand before each loop of the list, and at the beginning of its body.
  void run(Steps& steps) {
    Steps result;
    for (Step& step : steps) {
      if (auto* loop = std::get_if<ForStep>(&step.what)) pair_up(step, *loop, result);
      result.push_back(std::move(step));
    }
    steps = std::move(result);
  }

 private:
  std::vector<Dim>& dims() { return program_.sharded.graph.dims; }

  void pair_up(const Step& step, ForStep& loop, Steps& before) {
    const std::vector<TurnIndex> turn{loop.loop};
    std::set<BufferId> written;
    for_each_access(step, [&](const Access& access, Use use) {
      if (use != Use::read) written.insert(storage(program_, access.buffer));
    });
    std::map<BufferId, BufferId> pairs;
    for (Step& inner : loop.body)
      for_each_access(inner, [&](Access& access, Use) {
        if (access.turns != turn || written.contains(storage(program_, access.buffer))) return;
        const auto [pair, fresh] = pairs.try_emplace(access.buffer);
        if (fresh) pair->second = pair_of(access.buffer);
        access = {pair->second, {TurnIndex(loop.loop, 0, 2)}, access.maps};
      });
    Steps body;
    const int64_t first = loop.reverse ? loop.turns - 1 : 0;
    for (const auto& [stack, pair] : pairs) {
      const auto copy = [&](Steps& to, const TurnIndex& from_slot, const TurnIndex& to_slot) {
        to.push_back({CopyStep{{stack, {from_slot}}, {pair, {to_slot}}}, part_of(step), step.spans, "", {}});
      };
      copy(before, TurnIndex({}, first), TurnIndex({}, first % 2));
      copy(body, TurnIndex(loop.loop, loop.reverse ? loop.turns - 1 : 1, loop.turns), TurnIndex(loop.loop, 1, 2));
    }
    for (Step& inner : loop.body) body.push_back(std::move(inner));
    loop.body = std::move(body);
  }

  BufferId pair_of(BufferId stack) {
    const Buffer& held = program_.buffer(storage(program_, stack));
    Buffer pair = program_.buffer(stack);
    pair.name += "_pair" + std::to_string(program_.buffers.size());
    pair.dims[0] = {two_, {}};
    pair.kind = BufferKind::workspace;
    pair.space = held.space;
    pair.stored = {};
    pair.view_of = {};
    program_.buffers.push_back(std::move(pair));
    return BufferId{static_cast<uint32_t>(program_.buffers.size() - 1)};
  }

  Program& program_;
  DimId two_;
};

}  // namespace

Program prefetched(Program program) {
  Prefetch prefetch(program);
  for_each_list(program, [&](Steps& steps) { prefetch.run(steps); });
  plan_memory(program);
  return program;
}

}  // namespace mesh::tests
