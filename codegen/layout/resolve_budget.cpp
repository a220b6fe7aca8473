#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "codegen/elaborate/declarations.h"
#include "codegen/layout/budget.h"
#include "codegen/layout/resolve_mesh.h"
#include "frontend/size.h"
#include "frontend/suggest.h"

namespace mesh {
namespace {

struct Unit {
  const char* name;
  int64_t bytes;
};
constexpr std::array<Unit, 9> units{{{"B", 1},
                                     {"KiB", int64_t{1} << 10},
                                     {"MiB", int64_t{1} << 20},
                                     {"GiB", int64_t{1} << 30},
                                     {"TiB", int64_t{1} << 40},
                                     {"kB", 1'000},
                                     {"MB", 1'000'000},
                                     {"GB", 1'000'000'000},
                                     {"TB", 1'000'000'000'000}}};

const Unit* unit_named(std::string_view name) {
  const auto found = std::ranges::find_if(units, [&](const Unit& unit) { return name == unit.name; });
  return found == units.end() ? nullptr : &*found;
}

/// Kinds that send: what a budget may count and forbid.
std::vector<CollectiveKind> sending_kinds() {
  using enum CollectiveKind;
  return {all_reduce, reduce_scatter, all_gather, all_to_all, permute, redistribute, halo, ring, broadcast, reduce};
}

const std::map<std::string, ValueKind>& words_for_values() {
  static const std::map<std::string, ValueKind> words{{"params", ValueKind::parameter},
                                                      {"grads", ValueKind::gradient},
                                                      {"optimizer", ValueKind::optimizer},
                                                      {"activations", ValueKind::activation},
                                                      {"state", ValueKind::state}};
  return words;
}

class Limits {
 public:
  Limits(const Graph& graph, const Layout& layout, const SizeScope& sizes, const SourceMap& sources,
         DiagnosticSink& sink)
      : graph_(graph), layout_(layout), sizes_(sizes), sources_(sources), sink_(sink) {
    for (const Stored& stored : graph.stored) {
      names_.insert(stored.path);
      names_.insert("d_" + stored.path);
    }
    for (const auto& [name, value] : graph.names) {
      names_.insert(name);
      names_.insert("d_" + name);
    }
    for (const Node& node : graph.nodes) scopes_.insert(node.scope);
  }

  std::optional<Limit> one(const ast::Limit& written) {
    const size_t errors = sink_.error_count();
    Limit limit{};
    limit.span = written.span;
    limit.text = on_one_line(sources_.text(written.span));
    std::visit([&](const auto& node) { read(node, limit); }, written.node);
    return sink_.error_count() > errors ? std::nullopt : std::optional(std::move(limit));
  }

 private:
  static std::string on_one_line(std::string_view text) {
    std::string line;
    for (const char c : text)
      if (c == '\n' || c == '\t' || c == '\r' || c == ' ') {
        if (!line.ends_with(' ')) line += ' ';
      } else {
        line += c;
      }
    return line;
  }

  void read(const ast::Bound& bound, Limit& limit) {
    const std::string& quantity = bound.quantity.text;
    if (quantity == "bytes") limit.what = Limit::What::bytes;
    else if (quantity == "peak_memory") limit.what = Limit::What::memory;
    else return unknown("quantity", bound.quantity, {"bytes", "peak_memory"});
    axis(bound.over, limit);
    if (limit.what == Limit::What::memory && bound.over)
      sink_.error("E0414", bound.over->span, "`peak_memory` is of a rank, not of an axis")
          .help("write it of a rank: `peak_memory {} {}`", bound.op == ast::CompareOp::equal ? "==" : "<=",
                sources_.text(cover(bound.value->span, bound.unit ? bound.unit->span : bound.value->span)));
    limit.exactly = bound.op == ast::CompareOp::equal;
    bytes(bound, limit);
  }

  void read(const ast::Forbid& forbid, Limit& limit) {
    limit.what = Limit::What::forbidden;
    if (const auto kind = this->kind(forbid.collective)) limit.forbidden = *kind;
    axis(forbid.over, limit);
    if (!forbid.of) return;
    const Glob path = glob(*forbid.of);
    if (const auto word = words_for_values().find(path.text()); word != words_for_values().end())
      limit.of = word->second;
    else if (std::ranges::none_of(names_, [&](const std::string& name) { return path.matches(name); }))
      no_value(forbid.of->span, path);
    else limit.of_path = path;
  }

  void read(const ast::Collectives& exact, Limit& limit) {
    limit.what = Limit::What::counts;
    limit.in = glob(exact.in);
    axis(exact.over, limit);
    if (std::ranges::none_of(scopes_, [&](const std::string& scope) { return lies_under(limit.in, scope); }))
      no_match(exact.in.span, limit.in, {scopes_.begin(), scopes_.end()}, "no block or loop");
    for (const ast::Attribute& attribute : exact.counts) {
      const auto kind = this->kind(attribute.key);
      const auto count = evaluate_size(*attribute.value, sizes_, sink_, "`" + attribute.key.text + "`", 0);
      if (kind && count) limit.counts.emplace(*kind, *count);
    }
  }

  static Glob glob(const ast::Glob& written) {
    Glob glob;
    for (const ast::Name& part : written.parts) glob.parts.push_back(part.text);
    return glob;
  }

  std::optional<CollectiveKind> kind(const ast::Name& name) {
    std::vector<std::string> names;
    for (const CollectiveKind kind : sending_kinds()) {
      names.emplace_back(name_of(kind));
      if (name.text == names.back()) return kind;
    }
    unknown("collective", name, names);
    return std::nullopt;
  }

  void axis(const std::optional<ast::Name>& over, Limit& limit) {
    if (!over) return;
    std::vector<std::string> names;
    for (size_t i = 0; i < layout_.mesh.axes.size(); ++i) {
      names.push_back(layout_.mesh.axes[i].name);
      if (names.back() == over->text) limit.over = static_cast<AxisId>(i);
    }
    if (limit.over) return;
    auto report = sink_.error("E0404", over->span, "mesh `{}` has no axis `{}`", layout_.mesh.name, over->text);
    if (const auto near = did_you_mean(over->text, names))
      report.here("did you mean `{}`?", *near).fix(over->span, *near);
    else report.here("its axes: {}", fmt::join(names, ", "));
  }

  void bytes(const ast::Bound& bound, Limit& limit) {
    const auto number = evaluate_number(*bound.value, sizes_, sink_);
    std::vector<std::string> names;
    for (const Unit& unit : units) names.emplace_back(unit.name);
    if (bound.unit && unit_named(bound.unit->text) == nullptr) return unknown("unit of memory", *bound.unit, names);
    if (!number) return;
    if (!bound.unit && *number != Rational(0)) {
      sink_.error("E0414", bound.value->span, "`{}` has no unit", number->text())
          .here("bytes, or what?")
          .help(fmt::format("write it: `{} <= {} MiB`; there are {}", bound.quantity.text, number->text(),
                            fmt::join(names, ", ")));
      return;
    }
    const auto all = multiply(*number, bound.unit ? unit_named(bound.unit->text)->bytes : 1);
    if (!all || all->numerator() < 0)
      sink_.error("E0414", bound.value->span, "`{}` cannot be a number of bytes", limit.text)
          .help("write a number from 0, and a larger unit where it is long");
    else limit.bytes = all->floor().numerator();
  }

  void unknown(const char* what, const ast::Name& name, const std::vector<std::string>& known) {
    auto report = sink_.error("E0414", name.span, "a budget knows no {} `{}`", what, name.text);
    if (const auto near = did_you_mean(name.text, known))
      report.here("did you mean `{}`?", *near).fix(name.span, *near);
    else report.here("there are {}", fmt::join(known, ", "));
  }

  /// Gradients, `d_w`, are left out: they would hide what the spec names.
  void no_value(Span span, const Glob& glob) {
    std::vector<std::string> known;
    for (const auto& [word, kind] : words_for_values()) known.push_back(word);
    std::ranges::copy_if(names_, std::back_inserter(known),
                         [&](const std::string& name) { return !name.starts_with("d_"); });
    no_match(span, glob, std::move(known), "no value");
  }

  void no_match(Span span, const Glob& glob, std::vector<std::string> names, const char* what) {
    auto report = sink_.error("E0408", span, "`{}` matches {} of model {}", glob.text(), what, graph_.model);
    std::erase(names, "");
    if (const auto near = did_you_mean(glob.text(), names)) report.here("did you mean `{}`?", *near).fix(span, *near);
    else if (!names.empty()) report.note("there are " + some_of(names));
  }

  const Graph& graph_;
  const Layout& layout_;
  const SizeScope& sizes_;
  const SourceMap& sources_;
  DiagnosticSink& sink_;
  std::set<std::string> names_, scopes_;
};

/// E0405 for a budget whose layout the spec does not have.
void unknown_layout(const ast::Budget& budget, const Declarations& declared, DiagnosticSink& sink) {
  std::vector<std::string> names;
  for (const ast::Layout* layout : declared.layouts) names.push_back(layout->name.text);
  auto report = sink.error("E0405", budget.layout.span, "a budget for a layout that the spec does not have: `{}`",
                           budget.layout.text);
  if (const auto near = did_you_mean(budget.layout.text, names))
    report.here("did you mean `{}`?", *near).fix(budget.layout.span, *near);
  else if (names.empty()) report.note("the spec has no layout");
  else report.here("layouts of the spec: {}", fmt::join(names, ", "));
}

}  // namespace

std::vector<Limit> resolve_budget(const SourceProgram& program, const Graph& graph, const Layout& layout,
                                  const LayoutOptions& options, const SourceMap& sources, DiagnosticSink& sink) {
  const Declarations declared = declarations_of(program, sink);
  const SizeScope sizes = sizes_of(graph, declared, options, sink);
  Limits limits(graph, layout, sizes, sources, sink);
  std::vector<Limit> found;
  for (const ast::Budget* budget : declared.budgets) {
    if (declared.layout(budget->layout.text) == nullptr) unknown_layout(*budget, declared, sink);
    if (budget->layout.text != layout.name) continue;
    for (const ast::Limit& written : budget->limits)
      if (auto limit = limits.one(written)) found.push_back(std::move(*limit));
  }
  return found;
}

std::optional<int64_t> parse_bytes(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string name(end, text.data() + text.size());
  std::erase(name, ' ');
  const Unit* unit = unit_named(name);
  if (error != std::errc() || unit == nullptr || !(number > 0)) return std::nullopt;
  const double bytes = std::floor(number * static_cast<double>(unit->bytes));
  return bytes < 0x1p62 ? std::optional(static_cast<int64_t>(bytes)) : std::nullopt;
}

}  // namespace mesh
