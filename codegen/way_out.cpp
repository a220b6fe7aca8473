#include "codegen/way_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "codegen/elaborate/declarations.h"
#include "codegen/layout/resolve_attributes.h"
#include "codegen/program/exposed.h"
#include "codegen/program/largest_values.h"
#include "frontend/imports.h"
#include "frontend/lint_levels.h"

namespace mesh {
namespace {

constexpr size_t most_trials = 24;

/// The files of a request as the map of its sources names them.
CompileRequest from_memory(CompileRequest request) {
  std::ranges::replace(request.files, "-", "<stdin>");
  return request;
}

SourceMap changed(const SourceMap& sources, const Change& change) {
  SourceMap copy;
  for (FileId file = 1; file <= sources.size(); ++file) {
    std::string text(sources.text(file));
    if (file == change.at.file) text.replace(change.at.begin, change.at.size(), change.text);
    copy.add(sources.name(file), std::move(text));
  }
  return copy;
}

/// Writes changes of one layout.
class Writer {
 public:
  Writer(const CompileRequest& request, const SourceMap& sources, const Compiled& compiled)
      : graph_(compiled.sharded().graph), layout_(compiled.sharded().layout), sources_(sources) {
    SourceMap copy = sources;  // of which the library is a file once more
    DiagnosticSink unheard;
    program_ = load_program(from_memory(request).files, copy, unheard);
    for (const Ast& file : program_.files)
      for (const ast::Decl& decl : file.decls)
        if (const auto* layout = std::get_if<ast::Layout>(&decl.node); layout && layout->name.text == layout_.name)
          if (written_ == nullptr) {
            written_ = layout;
            span_ = decl.span;
          }
  }

  bool writes() const { return written_ != nullptr && span_.file <= sources_.size(); }

  void add(const std::string& rule) {
    if (!writes() || !seen_.insert(rule).second) return;
    const uint32_t brace = span_.end - 1, line = sources_.line_of(span_.file, brace);
    const uint32_t begin = sources_.line_begin(span_.file, line);
    const bool own_line = sources_.text(Span{span_.file, begin, brace}).find_first_not_of(' ') == std::string::npos;
    if (own_line) changes_.push_back({{span_.file, begin, begin}, "  " + rule + "\n", rule, false});
    else
      changes_.push_back(
          {{span_.file, brace, brace}, (written_->rules.empty() ? " " : "; ") + rule + " ", rule, false});
  }

  /// Micro-batches twice, four and eight times as many as now.
  void accumulate() {
    if (!writes() || !graph_.sample_dim) return;
    const ast::Rule* rule = rule_of_batch();
    for (const int64_t times : {2, 4, 8}) {
      const std::string more = fmt::format("accumulate: {}", times * layout_.accumulate);
      if (rule == nullptr) {
        add(fmt::format("{} -> none {{ {} }}", graph_.dim(graph_.sample_dim).name, more));
        continue;
      }
      const auto& place = std::get<ast::Place>(rule->node);
      const std::string text(sources_.text(rule->span));
      const auto on_one_line = [](std::string shown) {  // rules in columns are filled up with spaces
        const auto twice = [](char a, char b) { return a == ' ' && b == ' '; };
        shown.erase(std::unique(shown.begin(), shown.end(), twice), shown.end());
        return shown;
      };
      if (place.attributes.empty()) {
        changes_.push_back({{rule->span.file, rule->span.end, rule->span.end},
                            fmt::format(" {{ {} }}", more),
                            on_one_line(fmt::format("{} {{ {} }}", text, more)),
                            true});
        continue;
      }
      const ast::Attribute* cut = attribute_of(place, "accumulate");
      const Span last = place.attributes.back().span;
      const Span old = cut ? cut->span : Span{last.file, last.end, last.end};
      const std::string change = cut ? more : ", " + more;
      std::string shown = text;
      shown.replace(old.begin - rule->span.begin, old.size(), change);
      changes_.push_back({old, change, on_one_line(shown), true});
    }
  }

  std::vector<Change> changes() && { return std::move(changes_); }

 private:
  /// The one that cuts the batch already, where several are of it.
  const ast::Rule* rule_of_batch() const {
    const ast::Rule* found = nullptr;
    for (const ast::Rule& rule : written_->rules) {
      const auto* place = std::get_if<ast::Place>(&rule.node);
      if (place == nullptr || place->dims.size() != 1 || place->dims[0].text() != graph_.dim(graph_.sample_dim).name)
        continue;
      if (found == nullptr || attribute_of(*place, "accumulate")) found = &rule;
    }
    return found;
  }

  const Graph& graph_;
  const Layout& layout_;
  const SourceMap& sources_;
  SourceProgram program_;
  const ast::Layout* written_ = nullptr;
  Span span_;
  std::vector<Change> changes_;
  std::set<std::string> seen_;
};

/// The scopes whose rules decide where a value lies.
std::vector<std::string> scopes_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::parameter: return {"params", "optimizer"};
    case ValueKind::gradient: return {"grads", "params", "optimizer"};
    case ValueKind::optimizer: return {"optimizer", "params"};
    case ValueKind::state: return {"state"};
    case ValueKind::activation:
    case ValueKind::nameless: return {"activations"};
    case ValueKind::input:
    case ValueKind::output: return {};
  }
  return {};
}

/// " unless heads, ffn": dims that have the axis already, with which a value cannot be split once more.
std::string unless(const Graph& graph, const Layout& layout, AxisId axis) {
  std::set<std::string> dims;
  for (const Rule& rule : layout.rules)
    if (rule.scope == RuleScope::general && !rule.in && !rule.pin && contains(rule.axes, axis))
      for (const DimId dim : rule.dims) dims.insert(graph.dim(dim).name);
  return dims.empty() ? "" : fmt::format(" unless {}", fmt::join(dims, ", "));
}

void add_rules(const Compiled& compiled, const PlannedCollective& culprit, Writer& writer) {
  const ShardedGraph& sharded = compiled.sharded();
  const Graph& graph = sharded.graph;
  const std::vector<DimId>& dims = graph.type(culprit.moved).dims;
  const Placement& from = sharded.placement(graph.node(graph.value(culprit.moved).producer).inputs[0]);
  const Placement& to = sharded.placement(culprit.moved);
  for (const AxisId axis : culprit.axes)
    for (size_t i = 0; i < dims.size(); ++i) {
      const std::string& name = graph.dim(dims[i]).name;
      const bool was_split = contains(from.dims[i].axes, axis), is_split = contains(to.dims[i].axes, axis);
      if (was_split == is_split && was_split) continue;
      const std::string rule = was_split ? fmt::format("{} -> none", name)
                                         : fmt::format("{} -> {}", name, sharded.layout.mesh.axes[axis].name);
      if (const std::string& path = culprit.paths.path; !path.empty())
        writer.add(fmt::format("tensor {} {{ {} }}", path, rule));
      for (const std::string& scope : scopes_of(culprit.of)) {
        writer.add(fmt::format("{} {{ {} }}", scope, rule));
        if (!was_split) writer.add(fmt::format("{} {{ {}{} }}", scope, rule, unless(graph, sharded.layout, axis)));
      }
    }
}

int64_t warnings(const DiagnosticSink& sink) {
  return std::ranges::count_if(sink.diagnostics(), [](const Diagnostic& one) {
    return one.level == Level::warning && one.code != "over_memory";  // which may be what is to be helped
  });
}

struct Step {
  Change change;
  Compiled compiled;
  int64_t excess;
};

std::optional<Step> best_change(const CompileRequest& request, const SourceMap& sources,
                                const std::vector<Change>& changes, const DiagnosticSink& told, const Excess& excess,
                                int64_t now) {
  std::optional<Step> best;
  std::pair<int64_t, double> least{now, 0};  // excess, then seconds
  try_changes(request, sources, changes, most_trials, told, [&](const Change& change, Compiled&& compiled) {
    const std::optional<int64_t> left = excess(compiled);
    if (!left) return;
    const std::pair<int64_t, double> reached{*left, step_cost(compiled.program).seconds};
    if (reached >= least) return;
    least = reached;
    best = Step{change, std::move(compiled), *left};
  });
  return best;
}

bool cuts_batch(const Change& change) { return change.shown.find("accumulate: ") != std::string::npos; }

}  // namespace

std::optional<Compiled> compiled_with(const Change& change, const CompileRequest& request, const SourceMap& sources,
                                      DiagnosticSink& found) {
  CompileRequest trial = from_memory(request);
  trial.on_trial = trial.past_limits = true;
  trial.dump = nullptr;
  SourceMap edited = changed(sources, change);
  return compile(trial, edited, found);
}

void try_changes(const CompileRequest& request, const SourceMap& sources, const std::vector<Change>& changes,
                 size_t most, const DiagnosticSink& told, const std::function<void(const Change&, Compiled&&)>& visit) {
  for (size_t i = 0; i < std::min(changes.size(), most); ++i) {
    DiagnosticSink found = with_levels_of(told);
    std::optional<Compiled> compiled = compiled_with(changes[i], request, sources, found);
    if (compiled && warnings(found) <= warnings(told)) visit(changes[i], *std::move(compiled));
  }
}

std::optional<WayOut> find_way_out(const CompileRequest& request, const SourceMap& sources, const Compiled& compiled,
                                   const Proposals& proposals, const DiagnosticSink& told, const Excess& excess,
                                   int64_t now, int most) {
  std::optional<WayOut> way;
  SourceMap text = sources;
  for (int i = 0; i < most && (!way || way->excess > 0); ++i) {
    auto step = best_change(request, text, proposals(text, way ? way->compiled : compiled), told, excess,
                            way ? way->excess : now);
    if (!step) break;
    text = changed(text, step->change);
    std::vector<Change> changes = way ? std::move(way->changes) : std::vector<Change>();
    if (cuts_batch(step->change)) std::erase_if(changes, cuts_batch);  // once more, in place of that
    changes.push_back(std::move(step->change));
    way = WayOut{std::move(changes), std::move(step->compiled), step->excess};
  }
  return way;
}

std::vector<Change> changes_for(const CompileRequest& request, const SourceMap& sources, const Compiled& compiled,
                                const std::vector<PlannedCollective>& culprits) {
  Writer writer(request, sources, compiled);
  for (const PlannedCollective& culprit : culprits) add_rules(compiled, culprit, writer);
  return std::move(writer).changes();
}

std::vector<Change> changes_for_memory(const CompileRequest& request, const SourceMap& sources,
                                       const Compiled& compiled) {
  const Graph& graph = compiled.program.sharded.graph;  // with the dims that only buffers have
  const MeshShape& mesh = compiled.sharded().layout.mesh;
  Writer writer(request, sources, compiled);
  writer.accumulate();
  for (const Node& node : graph.nodes)
    if (const LoopOp* loop = std::get_if<LoopOp>(&node.op); loop && !takes_parts(graph, *loop))
      writer.add(fmt::format("{} -> none {{ remat: \"layer\" }}", graph.dim(loop->dim).name));
  size_t looked_at = 0;
  for (const Buffer* buffer : largest_buffers(compiled.program)) {
    if (++looked_at > 6) break;
    std::vector<AxisId> used;
    for (const LocalDim& dim : buffer->dims)
      used.insert(used.end(), dim.placement.axes.begin(), dim.placement.axes.end());
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
      for (const LocalDim& dim : buffer->dims) {
        if (contains(used, static_cast<AxisId>(axis)) || mesh.axes[axis].size < 2) continue;
        const std::string rule = fmt::format("{} -> {}", graph.dim(dim.dim).name, mesh.axes[axis].name);
        switch (buffer->kind) {
          case BufferKind::parameter: writer.add(fmt::format("params {{ {} }}", rule)); break;
          case BufferKind::optimizer: writer.add(fmt::format("optimizer {{ {} }}", rule)); break;
          case BufferKind::gradient: writer.add(fmt::format("grads {{ {} }}", rule)); break;
          case BufferKind::state:
          case BufferKind::cache: writer.add(fmt::format("state {{ {} }}", rule)); break;
          case BufferKind::input:
          case BufferKind::activation:
          case BufferKind::workspace:
          case BufferKind::result: writer.add(fmt::format("activations {{ {} }}", rule)); break;
        }
      }
  }
  return std::move(writer).changes();
}

}  // namespace mesh
