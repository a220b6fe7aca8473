#include "codegen/commands/explain_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/commands/command.h"
#include "codegen/commands/plan_facts.h"
#include "codegen/commands/plan_report.h"
#include "codegen/commands/session.h"
#include "codegen/commands/table.h"
#include "codegen/commands/tiles.h"
#include "codegen/commands/why_split.h"
#include "codegen/elaborate/declarations.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/value_names.h"
#include "codegen/program/exposed.h"
#include "frontend/imports.h"
#include "frontend/lint_levels.h"
#include "frontend/suggest.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

using Json = nlohmann::ordered_json;

/// Of what an op computes on the way, so that it is no value of the program: what to look at are the values around.
std::string within_text(const Graph& graph, const std::string& name, const Value& made) {
  const Node& node = graph.node(made.producer);
  std::vector<std::string> around;
  const auto add = [&](const Value& value) {  // by the name that it was bound to last
    const std::string& known = value.other_names.empty() ? value.name : value.other_names.back();
    if (graph.names.contains(known)) around.push_back("`" + known + "`");
  };
  for (const ValueId input : node.inputs) add(graph.value(input));
  add(made);
  return fmt::format(
      "`{}` is part of `{}`{}, which computes it part by part and stores it nowhere{}; `meshc fetch` shows its numbers",
      name, simple_name(node.op), node.scope.empty() ? "" : fmt::format(" in `{}`", node.scope),
      around.empty() ? "" : fmt::format(": look at {}", fmt::join(around, ", ")));
}

ValueId value_called(const Graph& graph, const std::string& name) {
  std::vector<std::string> known;
  for (const Stored& stored : graph.stored) {
    if (stored.path == name) return stored.value;
    known.push_back(stored.path);
  }
  if (const auto found = graph.names.find(name); found != graph.names.end()) return found->second;
  for (const PlannedTensor& one : planned_tensors(graph)) {  // those that the spec gives no name
    if (one.name == name) return one.value;
    known.push_back(one.name);
  }
  for (const Value& made : graph.values)
    if (std::ranges::find(made.inner_names, name) != made.inner_names.end())
      throw UsageError(within_text(graph, name, made));
  for (const auto& [other, value] : graph.names) known.push_back(other);
  const auto near = did_you_mean(name, known);
  throw UsageError(fmt::format("no value of model `{}` is called `{}`{}", graph.model, name,
                               near ? fmt::format(": did you mean `{}`?", *near) : "; `meshc plan` lists them"));
}

/// The copies of a value that the sharded graph has in place of it: of what is made of positions and numbers alone,
/// each reader makes the part that it needs. Empty where the value has its own place.
std::vector<ValueId> copies_for_readers(const Graph& graph, const std::string& name, ValueId value) {
  std::vector<ValueId> copies;
  for (const Body& body : graph.bodies)
    for (const NodeId node : body.nodes)
      for (const ValueId made : graph.node(node).results) {
        if (made == value) return {};
        if (graph.value(made).any_name([&](const std::string& one) { return one == name; })) copies.push_back(made);
      }
  if (copies.empty()) throw UsageError(fmt::format("a training step does not compute `{}`", name));
  return copies;
}

/// The spec once more, with another rule in its layout each time.
class Otherwise {
 public:
  Otherwise(const Session& session, const Compiled& compiled) : session_(session), compiled_(compiled) {
    SourceMap copy = session.sources;  // of which the library is a file once more
    DiagnosticSink unheard;
    const SourceProgram program = load_program(session.request.files, copy, unheard);
    for (const Ast& file : program.files)
      for (const ast::Decl& decl : file.decls)
        if (const auto* layout = std::get_if<ast::Layout>(&decl.node))
          if (layout->name.text == compiled.sharded().layout.name) there_ = decl.span;
  }

  /// Nothing where it cannot be so.
  std::optional<StepCost> with(const std::string& rule) const {
    if (!there_.known() || there_.file > session_.sources.size()) return {};
    std::string layout = compiled_.found ? compiled_.found->text : std::string(session_.sources.text(there_));
    layout.insert(layout.rfind('}'), "\n" + rule + "\n");
    SourceMap sources;
    for (FileId file = 1; file <= session_.sources.size(); ++file) {
      std::string text(session_.sources.text(file));
      if (file == there_.file) text.replace(there_.begin, there_.size(), layout);
      sources.add(session_.sources.name(file), std::move(text));
    }
    CompileRequest request = session_.request;
    std::ranges::replace(request.files, "-", "<stdin>");
    request.on_trial = request.past_limits = true;
    DiagnosticSink found = with_levels_of(session_.sink);
    const std::optional<Compiled> compiled = compile(request, sources, found);
    return compiled ? std::optional(step_cost(compiled->program)) : std::nullopt;
  }

 private:
  const Session& session_;
  const Compiled& compiled_;
  Span there_;
};

/// What a step would cost under one more rule.
struct OtherCost {
  std::string rule;
  StepCost cost;
};

/// Under a pin of each dim to what it is not split by.
std::vector<OtherCost> other_costs(const Session& session, const Compiled& compiled, const std::string& name,
                                   ValueId value) {
  const ShardedGraph& sharded = compiled.sharded();
  const MeshShape& mesh = sharded.layout.mesh;
  const ValueType& type = sharded.graph.type(value);
  const Placement& now = sharded.placement(value);
  const Otherwise otherwise(session, compiled);
  std::vector<OtherCost> others;
  const auto add = [&](const DimId dim, const std::string& target) {
    const std::string rule = fmt::format("tensor {} {{ {} -> {} }}", name, sharded.graph.dim(dim).name, target);
    if (const std::optional<StepCost> cost = otherwise.with(rule)) others.push_back({rule, *cost});
  };
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (!now.dims[i].axes.empty()) add(type.dims[i], "none");
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
      if (mesh.axes[axis].size > 1 && now.dims[i].axes != std::vector{static_cast<AxisId>(axis)})
        add(type.dims[i], mesh.axes[axis].name);
  }
  return others;
}

/// All that is told of a value.
struct Explained {
  std::string name;
  ValueId value;
  bool is_formula = false;     // made of positions and numbers alone
  std::vector<ValueId> lying;  // the value, or its copies for readers
  StepCost cost;
  std::vector<OtherCost> others;
};

Explained explained(const Session& session, const Compiled& compiled, const std::string& name) {
  const ShardedGraph& sharded = compiled.sharded();
  Explained all{name, value_called(sharded.graph, name), false, {}, step_cost(compiled.program), {}};
  all.lying = copies_for_readers(sharded.graph, name, all.value);
  all.is_formula = !all.lying.empty();
  if (all.is_formula) return all;
  all.lying = {all.value};
  if (!is_gradient_name(name)) all.others = other_costs(session, compiled, name, all.value);
  return all;
}

// ---- for people

std::string place_text(const SourceMap& sources, Span span) {
  return span.known() ? fmt::format(" ({})", sources.file_and_line(span)) : "";
}

std::string why_text(const ShardedGraph& sharded, const SourceMap& sources, ValueId value) {
  std::string text;
  for (const WhySo& one : why_it_lies_so(sharded, value)) {
    text += fmt::format("  {}\n", one.what);
    for (const SplitCause& cause : one.causes)
      text += fmt::format("    {}{}\n", cause.text, place_text(sources, cause.span));
  }
  if (!text.empty()) return text;
  return sharded.placements[value.index].at.empty() ? "  every rank holds all of it\n"
                                                    : "  it is computed at these ranks, which hold all of it\n";
}

std::string lies_text(const Session& session, const ShardedGraph& sharded, ValueId value) {
  const Graph& graph = sharded.graph;
  const MeshShape& mesh = sharded.layout.mesh;
  const ValueType& type = graph.type(value);
  const Placement& placement = sharded.placement(value);
  std::string text = fmt::format("  {}, {} a rank\n\nwhy\n{}", to_string(graph, mesh, type, placement),
                                 meshrt::bytes_text(local_bytes(graph, mesh, type, placement)),
                                 why_text(sharded, session.sources, value));
  if (const std::string picture = picture_of_tiles(graph, mesh, type, placement); !picture.empty())
    text += "\nwhich ranks hold what\n" + picture;
  return text;
}

std::string explained_text(const Session& session, const ShardedGraph& sharded, const Explained& all) {
  const Graph& graph = sharded.graph;
  std::string text = fmt::format("{} : {}{}\n", all.name, to_string(graph, graph.type(all.value)),
                                 place_text(session.sources, graph.node(graph.value(all.value).producer).span));
  if (all.is_formula) text += "  made of positions and numbers alone: who reads it makes the part that it needs\n";
  std::vector<std::string> told;
  for (const ValueId value : all.lying) {
    std::string one = lies_text(session, sharded, value);
    if (std::ranges::count(told, one) == 0) told.push_back(std::move(one));
  }
  text += fmt::format("{}", fmt::join(told, "\n"));
  if (all.others.empty()) return text;
  std::vector<std::vector<std::string>> rows{{"otherwise", "a step", "sends", "a rank holds"}};
  const auto add = [&](const std::string& rule, const StepCost& cost) {
    rows.push_back(
        {"  " + rule, time_text(cost.seconds), meshrt::bytes_text(cost.bytes), meshrt::bytes_text(cost.memory)});
  };
  add("now", all.cost);
  for (const OtherCost& other : all.others) add(other.rule, other.cost);
  return text + "\n" + in_columns(rows);
}

// ---- for programs

Json cost_json(const StepCost& cost) {
  return {{"predicted_seconds", cost.seconds}, {"communication_bytes", cost.bytes}, {"memory_peak", cost.memory}};
}

Json why_json(const ShardedGraph& sharded, const SourceMap& sources, ValueId value) {
  Json why = Json::array();
  for (const WhySo& one : why_it_lies_so(sharded, value)) {
    Json causes = Json::array();
    for (const SplitCause& cause : one.causes)
      causes.push_back(
          {{"text", cause.text}, {"file", sources.file_name(cause.span)}, {"line", line_of(sources, cause.span)}});
    why.push_back({{"what", one.what}, {"causes", causes}});
  }
  return why;
}

Json explained_json(const Session& session, const ShardedGraph& sharded, const Explained& all) {
  const std::vector<PlannedTensor> planned = planned_tensors(sharded.graph);
  const auto known = std::ranges::find(planned, all.value, &PlannedTensor::value);
  Json lies = Json::array(), otherwise = Json::array();
  for (const ValueId value : all.lying) {
    Json row =
        tensor_json(sharded, session.sources, {all.name, known == planned.end() ? "activation" : known->kind, value});
    row["why"] = why_json(sharded, session.sources, value);
    lies.push_back(std::move(row));
  }
  for (const OtherCost& other : all.others) {
    otherwise.push_back({{"rule", other.rule}});
    otherwise.back().update(cost_json(other.cost));
  }
  return {{"name", all.name}, {"lies", lies}, {"now", cost_json(all.cost)}, {"otherwise", otherwise}};
}

}  // namespace

int explain_values(const SpecOptions& spec, const OutputOptions& output, const std::vector<std::string>& names) {
  if (names.empty()) throw UsageError("no value named, as in `meshc explain gpt.mesh layer.attn.q`");
  Session session(spec, output);
  const std::optional<Compiled> compiled = session.compile();
  if (!compiled) return exit_diagnostics;
  Json values = Json::array();
  for (size_t i = 0; i < names.size(); ++i) {
    const Explained all = explained(session, *compiled, names[i]);
    if (output.json) values.push_back(explained_json(session, compiled->sharded(), all));
    else fmt::print("{}{}", i == 0 ? "" : "\n", explained_text(session, compiled->sharded(), all));
  }
  if (output.json) fmt::print("{}\n", Json{{"schema", 1}, {"values", values}}.dump(2));
  return exit_ok;
}

}  // namespace mesh
