#include "codegen/layout/spread_merged.h"

#include <algorithm>

namespace mesh {
namespace {

class Spreader {
 public:
  Spreader(const Graph& graph, Layout& layout, DiagnosticSink& sink) : graph_(graph), layout_(layout), sink_(sink) {}

  void run() {
    for (size_t rule = 0; rule < layout_.rules.size(); ++rule)
      if (layout_.rules[rule].dims.size() > 1 && layout_.rules[rule].part == 0) spread(rule);
  }

 private:
  /// The rule keeps the axes of its first dim; rules for what is left over follow it.
  void spread(size_t at) {
    for (size_t part = 0; part + 1 < layout_.rules[at].dims.size(); ++part, ++at) {
      const int64_t size = graph_.dim(layout_.rules[at].dims[part]).size;
      const int64_t ranks = layout_.mesh.size(layout_.rules[at].axes);
      if (size % ranks == 0) return;
      const auto taken = ranks % size == 0 ? take(at, size) : std::nullopt;
      if (!taken) return refuse(layout_.rules[at], ranks, size);
      Rule rest = layout_.rules[at];
      rest.part = part + 1;
      const auto cut = rest.axes.begin() + static_cast<std::ptrdiff_t>(*taken);
      layout_.rules[at].axes.assign(rest.axes.begin(), cut);
      rest.axes.erase(rest.axes.begin(), cut);
      layout_.rules.insert(layout_.rules.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(rest));
    }
  }

  /// How many axes of a rule have `parts` ranks together, the last of them cut where need be; nothing when no cut does.
  std::optional<size_t> take(size_t rule, int64_t parts) {
    size_t taken = 0;
    for (; parts > 1; ++taken) {
      const AxisId axis = layout_.rules[rule].axes[taken];
      const int64_t size = layout_.mesh.axes[axis].size;
      if (parts % size == 0) {
        parts /= size;
      } else if (size % parts == 0) {
        cut(axis, parts, layout_.rules[rule]);
        parts = 1;
      } else {
        return std::nullopt;
      }
    }
    return taken;
  }

  /// The axis becomes two, the first with `parts` ranks: whoever has it has both, which is the same.
  void cut(AxisId axis, int64_t parts, const Rule& rule) {
    MeshAxis major = layout_.mesh.axes[axis], minor = major;
    const std::string first = graph_.dim(rule.dims[rule.part]).name, second = graph_.dim(rule.dims[rule.part + 1]).name;
    minor.name = free_name(major.name + "_" + second);
    major.name = free_name(major.name + "_" + first);
    minor.size = major.size / parts;
    major.size = parts;
    major.stride *= minor.size;
    layout_.mesh.axes[axis] = major;
    layout_.mesh.axes.insert(layout_.mesh.axes.begin() + axis + 1, minor);
    const auto renumber = [&](std::vector<AxisId>& axes) {
      std::vector<AxisId> result;
      for (const AxisId old : axes) {
        result.push_back(old > axis ? static_cast<AxisId>(old + 1) : old);
        if (old == axis) result.push_back(static_cast<AxisId>(axis + 1));
      }
      axes = std::move(result);
    };
    for (Rule& each : layout_.rules) renumber(each.axes);
    renumber(layout_.replicated);
  }

  std::string free_name(std::string name) const {
    const auto taken = [&] {
      return std::any_of(layout_.mesh.axes.begin(), layout_.mesh.axes.end(),
                         [&](const MeshAxis& axis) { return axis.name == name; });
    };
    while (taken()) name += '_';
    return name;
  }

  void refuse(const Rule& rule, int64_t ranks, int64_t size) {
    const Dim& dim = graph_.dim(rule.dims[rule.part]);
    const bool multiple = ranks % size == 0;
    sink_.error("E0901", rule.span, "parts that begin inside an element of `{}` are not built yet", dim.name)
        .here(multiple ? fmt::format("no axes have together the {} ranks of `{}` = {}", size, dim.name, size)
                       : fmt::format("`{}` = {} does not divide {} ranks, nor they it", dim.name, size, ranks))
        .label(dim.span, fmt::format("`{}` = {}", dim.name, size))
        .help(fmt::format("use a number of ranks that divides {0}, or a multiple of {0}", size));
  }

  const Graph& graph_;
  Layout& layout_;
  DiagnosticSink& sink_;
};

}  // namespace

void spread_merged(const Graph& graph, Layout& layout, DiagnosticSink& sink) { Spreader(graph, layout, sink).run(); }

}  // namespace mesh
