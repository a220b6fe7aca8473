#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/emit/emit_parts.h"
#include "codegen/layout/rules.h"
#include "codegen/program/branches.h"
#include "codegen/program/extent.h"
#include "codegen/program/overlap.h"
#include "codegen/program/walk.h"
#include "meshrt/log.h"

namespace mesh {

namespace {

struct Traffic {
  int64_t count = 0, bytes = 0;
  void add(int64_t times, int64_t of_each) {
    count += times;
    bytes += times * of_each;
  }
};
/// By kind, or none of a message between stages, and axes.
using TrafficTable = std::map<std::pair<std::optional<CollectiveKind>, std::vector<AxisId>>, Traffic>;

/// What a step of the program sends: of ranks that branches tell apart, the most of each kind.
TrafficTable count_traffic(const Program& program) {
  const RankClasses classes(program);
  std::vector<TrafficTable> tables(classes.count());
  struct Place {
    int64_t turns;
    RankSet ranks;
    const ForStep* loop;
  };
  std::vector<Place> around{{1, classes.all(), nullptr}};
  const auto count = [&](const Step& step) {
    if (const auto* message = std::get_if<MessageStep>(&step.what); message && message->sends) {
      const std::vector<int> home = program.sharded.layout.pipeline.lists.rank_of_stage();
      const Buffer& buffer = program.buffer(message->value.buffer);
      int64_t bytes = static_cast<int64_t>(meshrt::size_of(buffer.type));
      for (const LocalDim& local : dims_of(program, message->value)) bytes *= largest_extent(program, local);
      for (size_t i = 0; i < tables.size(); ++i)
        if (const int64_t count = around.back().turns *
                                  givers_on(classes.coordinate(i, message->axis), !message->down, home, message->among))
          tables[i][{std::nullopt, {message->axis}}].add(count, bytes);
    }
    if (const AttentionStep::Ring* ring = ring_of(step))
      for (size_t i = 0; i < tables.size(); ++i)
        for (const uint32_t one : ring->steps)
          if (around.back().ranks[i])
            tables[i][{CollectiveKind::ring, ring->axes}].add(around.back().turns, program.sharded.steps[one].bytes);
    const std::span<const CollectiveStep> call = movements(step);
    if (call.empty() || call.front().phase == CollectiveStep::Phase::wait || call.front().axes.empty()) return;
    const std::vector<bool>& ranks = around.back().ranks;
    // What is started for the next turn is not in the last one.
    int64_t turns = around.back().turns - (call.front().other_turn ? around[around.size() - 2].turns : 0);
    for (const Place& place : around)
      if (place.loop && place.loop->loop == call.front().last_turn) turns /= place.loop->turns;
    for (size_t i = 0; i < tables.size(); ++i) {
      if (!ranks[i]) continue;
      Traffic& traffic = tables[i][{call.front().kind, call.front().axes}];
      traffic.count += turns;
      for (const CollectiveStep& one : call) traffic.bytes += sent_in(program.sharded.steps[one.step], turns);
    }
  };
  const auto enter = [&](const Step& step, const Steps&) {
    const auto* loop = std::get_if<ForStep>(&step.what);
    const int64_t turns = loop == nullptr ? 1
                          : loop->own     ? largest_extent(program, {loop->dim, *loop->own})
                                          : loop->made();
    around.push_back({around.back().turns * turns, classes.entering(step, around.back().ranks), loop});
  };
  walk(program.routines[program.step().run].steps, count, enter, [&](const Step&, const Steps&) { around.pop_back(); });
  TrafficTable most;
  for (const TrafficTable& table : tables)
    for (const auto& [key, traffic] : table)
      if (Traffic& known = most[key]; traffic.bytes >= known.bytes) known = traffic;
  return most;
}

std::string mesh_text(const MeshShape& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes) axes.push_back(fmt::format("{}: {}", axis.name, axis.size));
  return fmt::format("{}{}{{ {} }}", mesh.name, mesh.name.empty() ? "" : " ", fmt::join(axes, ", "));
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  std::string text = meshrt::bytes_text(bytes);
  std::ranges::replace(text, ' ', CppWriter::no_break);
  return text;
}

void emit_header(EmitContext& context, CppWriter& out, const EmitOptions& options) {
  const Program& program = context.program;
  const Graph& graph = context.graph();
  constexpr int hang = 10;
  const auto row = [&](const char* title, const std::string& text) {
    if (!text.empty()) out.comment(fmt::format("  {:<8}  {}", title, text), hang);
  };
  out.comment(fmt::format("{}: model {}, written by meshc {} (spec {})", options.spec, graph.model, options.version,
                          options.spec_hash));
  out.comment("");
  row("command", options.command);
  std::vector<std::string> dims, rules, memory, traffic;
  for (const Dim& dim : graph.dims) dims.push_back(fmt::format("{} {}", dim.name, dim.size));
  row("dims", fmt::format("{}", fmt::join(dims, ", ")));
  const MeshShape& mesh = context.mesh();
  row("mesh", mesh.axes.empty() ? "one rank" : mesh_text(mesh));
  for (const Rule& rule : program.sharded.layout.rules) rules.push_back(rule_text(graph, mesh, rule));
  if (!program.sharded.layout.name.empty())
    row("layout", fmt::format("{}: {}", program.sharded.layout.name,
                              rules.empty() ? "no rules" : fmt::format("{}", fmt::join(rules, "; "))));
  if (const Replicas& replicas = program.sharded.layout.replicas)
    row("replicas", fmt::format("{} train apart for {} step{}: losses and parameters are NOT those of one rank",
                                replicas.count, replicas.sync, replicas.sync == 1 ? "" : "s"));
  row("machine", program.sharded.machine.name +
                     (program.sharded.machine.hash.empty() ? "" : " (" + program.sharded.machine.hash + ")"));
  row("numbers", options.precision);

  const TrafficTable table = count_traffic(program);
  for (const auto& [key, one] : table) {
    std::vector<std::string> axes;
    for (const AxisId axis : key.second) axes.push_back(mesh.axes[axis].name);
    traffic.push_back(fmt::format("{} {} over {} ({})", one.count, key.first ? name_of(*key.first) : "messages",
                                  fmt::join(axes, " * "), bytes_text(one.bytes)));
  }
  row("traffic", table.empty() ? "none" : fmt::format("a rank sends in a step: {}", fmt::join(traffic, ", ")));
  for (const auto& [kind, bytes] : program.memory.by_kind)
    if (bytes > 0) memory.push_back(fmt::format("{} {}", name_of(kind), bytes_text(bytes)));
  row("memory", fmt::format("{} shared with peers, {} own: {}", bytes_text(program.memory.arena),
                            bytes_text(program.memory.own), fmt::join(memory, ", ")));
  out.blank();
}

}  // namespace mesh
