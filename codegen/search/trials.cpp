#include "codegen/search/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/layout/cut.h"
#include "codegen/layout/divided.h"
#include "codegen/layout/place.h"
#include "codegen/layout/predict.h"
#include "codegen/layout/rules.h"
#include "codegen/program/exposed.h"
#include "frontend/diagnostic.h"

namespace mesh {
namespace {

constexpr std::string_view no_effect = "unused_layout_rule";
constexpr Span of_tried{1, 0, 0};  // where rules stand that are only tried

/// Lints say nothing of what is only tried, but that a rule has no effect.
DiagnosticSink deaf() {
  DiagnosticSink sink;
  for (const Lint& lint : known_lints())
    sink.set_lint_level(lint.name, lint.name == no_effect ? LintLevel::warn : LintLevel::allow);
  return sink;
}

/// Nothing after a mistake of the compiler: other rules are still worth a try.
template <class Try>
auto attempt(Try tried) -> decltype(tried()) {
  try {
    return tried();
  } catch (const std::logic_error&) {
    return {};
  }
}

int64_t stored_bytes(const ShardedGraph& placed) {
  int64_t bytes = 0;
  for (const Stored& stored : placed.graph.stored)
    bytes += local_bytes(placed.graph, placed.layout.mesh, stored.type, placed.placement(stored.value));
  return bytes;
}

/// Of each op the dims whose pairs it does not all work on: queries and keys under a mask.
std::set<std::set<std::string>> banded_dims(const Graph& graph) {
  std::set<std::set<std::string>> banded;
  for (const Node& node : graph.nodes) {
    if (node.inputs.empty() || std::holds_alternative<LoopOp>(node.op)) continue;
    for (const Factor& factor : definition(node.op).factors(graph, node))
      if (factor.band && (factor.band->least || factor.band->most))
        banded.insert({graph.dim(factor.band->first).name, graph.dim(factor.band->second).name});
  }
  return banded;
}

}  // namespace

Trials::Trials(const SearchRequest& request) : request_(request) {}

int64_t Trials::work() const {
  int64_t all = work_;
  for (const Prepared& step : prepared_)
    for (const auto& [axes, on_mesh] : step.meshes) all += on_mesh.facts->planner->work();
  return all;
}

std::optional<Layout> Trials::layout(const FoundRules& rules, DiagnosticSink& sink) {
  const ast::Rules written = to_ast(rules, of_tried);
  std::optional<Layout> made =
      resolve_layout(request_.program, request_.model, request_.options, request_.sources, sink, &written);
  const bool in_vain = std::ranges::any_of(
      sink.diagnostics(), [](const Diagnostic& one) { return one.code == no_effect && one.span() == of_tried; });
  if (in_vain) made.reset();
  return made;
}

bool Trials::legal(const FoundRules& rules) {
  DiagnosticSink sink = deaf();
  work_ += work_of_rules();
  return layout(rules, sink).has_value();
}

/// Beside dims that it may split: how the batch is cut, what is computed again, which loops are divided.
std::string Trials::others_of(const Layout& layout) const {
  std::string text = fmt::format("{}", layout.accumulate);
  for (const auto& [dim, turns] : layout.remat.loops) text += fmt::format(" {}:{}", dim.index, turns);
  for (const std::string& value : layout.remat.values) text += " " + value;
  bool divides = bool(layout.pipeline);
  for (const Node& node : request_.model.nodes)
    if (const auto* loop = std::get_if<LoopOp>(&node.op))
      divides = divides || ruled_turns(layout, node.scope, loop->dim).has_value();
  if (!divides) return text;
  text += fmt::format(" {} {} {}", layout.pipeline.axis, layout.pipeline.schedule, layout.pipeline.micro_batches);
  for (const Rule& rule : layout.rules)
    text += fmt::format("; {} -> {}", dims_text(request_.model, rule.dims, " * "), axes_text(layout.mesh, rule.axes));
  return text;
}

Trials::Prepared& Trials::prepared(const Layout& layout) {
  const std::string others = others_of(layout);
  for (Prepared& known : prepared_)
    if (known.others == others && std::ranges::all_of(known.asked, [&](const auto& one) {
          return may_split(layout, one.dims, one.dim, one.beside) == one.answer;
        }))
      return known;
  Prepared& made = prepared_.emplace_back();
  made.others = others;
  DiagnosticSink sink = deaf();
  const auto ask = [&](const std::vector<DimId>& dims, DimId dim, DimId beside) {
    made.asked.push_back({dims, dim, beside, may_split(layout, dims, dim, beside)});
    return made.asked.back().answer;
  };
  made.graph = step_graph(request_.step, layout, ask, request_.sources, sink);
  work_ += steps_of_gradients * static_cast<int64_t>(request_.model.nodes.size());
  if (made.graph) made.banded = banded_dims(*made.graph);
  if (made.graph && nodes_ == 0) nodes_ = static_cast<int64_t>(made.graph->nodes.size());
  return made;
}

std::vector<FoundRules> Trials::dealt(const FoundRules& rules) {
  if (std::ranges::all_of(prepared_, [](const Prepared& one) { return one.banded.empty(); })) return {};
  DiagnosticSink sink = deaf();
  const std::optional<Layout> found = layout(rules, sink);
  if (!found) return {};
  std::vector<FoundRules> ways{rules};
  for (const std::set<std::string>& dims : prepared(*found).banded)
    for (size_t i = ways.size(); i-- > 0;) {
      FoundRules way = ways[i];
      bool differs = false;
      for (FoundRule& rule : way) {
        if (rule.axes.empty() || !rule.attributes.empty() || rule.dims.size() > 1 || !dims.contains(rule.dims.front()))
          continue;
        rule.attributes.emplace_back("owns", "\"zigzag\"");
        differs = true;
      }
      if (differs) ways.push_back(std::move(way));
    }
  ways.erase(ways.begin());
  return ways;
}

std::shared_ptr<GraphFacts> Trials::facts(Prepared& step, const MeshShape& mesh) const {
  std::string axes;
  for (const MeshAxis& axis : mesh.axes) axes += fmt::format("{}:{}/{} ", axis.name, axis.size, axis.stride);
  auto& [kept, facts] = step.meshes[axes];
  if (!facts) {
    kept = std::make_unique<MeshShape>(mesh);
    facts = facts_of(*step.graph, *kept, request_.machine);
  }
  return facts;
}

std::optional<Estimate> Trials::estimate(const FoundRules& rules) {
  const auto known = estimates_.find(rules);
  if (known != estimates_.end()) return known->second;
  if (outcomes_.contains(rules)) ++twice_;
  return estimates_[rules] = attempt([&] { return placed(rules); });
}

std::optional<Estimate> Trials::placed(const FoundRules& rules) {
  DiagnosticSink sink = deaf();
  const std::optional<Layout> found = layout(rules, sink);
  work_ += work_of_rules();
  if (!found) return {};
  Prepared& step = prepared(*found);
  if (!step.graph) return {};
  const ShardedGraph graph =
      place_once(facts(step, found->mesh), for_groups(for_parts(*found, *step.graph), *step.graph));
  return Estimate{predict(graph).seconds(), stored_bytes(graph)};
}

std::optional<Outcome> Trials::compiled(const FoundRules& rules) {
  DiagnosticSink sink = deaf();
  const std::optional<Layout> found = layout(rules, sink);
  if (!found) return {};
  Prepared& step = prepared(*found);
  if (!step.graph) return {};
  work_ += steps_of_lowering * static_cast<int64_t>(step.graph->nodes.size());
  std::optional<Compiled> made =
      step_program(facts(step, found->mesh), *found, request_.memory, request_.sources, sink);
  if (!made) return {};
  return Outcome{step_cost(made->program), std::move(made->entries.front().sharded.placements)};
}

const Outcome* Trials::outcome(const FoundRules& rules) {
  const auto known = outcomes_.find(rules);
  if (known == outcomes_.end() && estimates_.contains(rules)) ++twice_;
  std::optional<Outcome>& made =
      known == outcomes_.end() ? (outcomes_[rules] = attempt([&] { return compiled(rules); })) : known->second;
  return made ? &*made : nullptr;
}

}  // namespace mesh
