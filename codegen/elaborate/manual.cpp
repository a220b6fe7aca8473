#include "codegen/elaborate/manual.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/manual_spread.h"
#include "codegen/elaborate/manual_varying.h"
#include "codegen/elaborate/names.h"
#include "codegen/elaborate/repeat.h"
#include "codegen/elaborate/statements.h"
#include "codegen/graph/dims.h"

namespace mesh::elaboration {
namespace {

bool stands_in(const Frame& frame, const Region& region) {
  for (const Frame* at = &frame; at != nullptr; at = at->outer)
    if (at == region.frame) return true;
  return false;
}

bool is_open(const Elaboration& e, DimId local) {
  return std::ranges::any_of(e.regions, [&](const Region* region) {
    return std::ranges::count(region->cuts, local, &Region::Cut::local) > 0;
  });
}

// ---- what names mean

/// What one rank of the region sees of a value from outside.
ValueId part_of(Elaboration& e, const Region& region, ValueId value) {
  for (const Region::Cut& cut : region.cuts) {
    const ValueType& type = e.type(value);
    if (!has(type.dims, cut.whole)) continue;
    AcrossRanks part{AcrossRanks::Kind::part, cut.ranks};
    part.split = cut.whole;
    part.scattered = cut.local;
    value = stand_in(e, part, value, with_dim(type, cut.whole, cut.local));
  }
  return value;
}

/// What leaves the region: along dims that it cuts, the parts of all ranks side by side are the whole again. Nothing is
/// sent for that: each rank has its part of it.
ValueId put_together(Elaboration& e, const Region& region, ValueId value) {
  for (const Region::Cut& cut : region.cuts)
    if (const Dims& dims = e.type(value).dims; has(dims, cut.local) && has(dims, cut.ranks))
      value = e.build.value(MergeOp{{cut.ranks, cut.local}, cut.whole}, {value});
  return value;
}

/// E0350 for a value that has dims of a region that has ended.
bool has_left(Elaboration& e, ValueId value, const Binding& binding, const std::string& name, Span span) {
  for (const RanksDim& ranks : e.graph.ranks_dims) {
    if (has(e.type(value).dims, ranks.dim)) {
      e.error("E0350", span, "`{}` differs from rank to rank of `{}`", name, ranks.axis)
          .here("outside of the region it would have to be the same on all of them")
          .label(binding.span, "bound in a manual region over `{}`", ranks.axis)
          .help(fmt::format("in the region, `all_reduce({}, over: {})` adds up what the ranks have, and `all_gather` "
                            "puts their parts of a dim together",
                            name, ranks.axis));
      return false;
    }
    for (const RanksDim::Cut& cut : ranks.cuts) {
      if (!has(e.type(value).dims, cut.local) || is_open(e, cut.local)) continue;
      const std::string& whole = e.name(cut.whole);
      e.error("E0350", span, "`{}` has the part of `{}` that a rank of `{}` sees", name, whole, ranks.axis)
          .here("outside of the region there is no such dim")
          .label(binding.span, "bound in a manual region over `{}`", ranks.axis)
          .help(fmt::format(
              "all ranks have the same, so nothing is to be put together: in the region, `{1}[{0} as other]` gives "
              "it a dim that is known here",
              whole, name));
      return false;
    }
  }
  return true;
}

/// E0352 for a value with two dims that the region cuts over one axis: a rank would see its part of each, and no rank
/// the rest.
bool is_cut_once(Elaboration& e, const Region& region, ValueId value, const std::string& name, Span span) {
  const Dims& dims = e.type(value).dims;
  for (const Region::Cut& first : region.cuts)
    for (const Region::Cut& second : region.cuts) {
      if (first.whole == second.whole || first.ranks != second.ranks) continue;
      if (!has(dims, first.whole) || !has(dims, second.whole)) continue;
      e.error("E0352", span, "`{}` has two dims that the region cuts over `{}`", name, axis_of(e, first.ranks))
          .here("a rank would see its part of `{}` and its part of `{}`, and no rank the rest", e.name(first.whole),
                e.name(second.whole))
          .label(region.span, "cut here")
          .help("cut one of them alone, or over another axis: `manual a over rows, b over columns { ... }`");
      return false;
    }
  return true;
}

// ---- the head of a region

/// The ranks that the region has of an axis: as many as it says, else as many as the layout's mesh.
std::optional<int64_t> parts_of(Elaboration& e, Frame& frame, const ast::Cut& cut) {
  if (cut.parts != nullptr) {
    const auto parts = constant(e, *frame.dims, *cut.parts, fmt::format("the ranks of `{}`", cut.axis.text));
    if (!parts || (*parts >= 1 && *parts < 1e6 && std::floor(*parts) == *parts)) return parts;
    e.error("E0351", cut.parts->span, "`{}` cannot have {} ranks", cut.axis.text, *parts);
    return {};
  }
  const std::map<std::string, int64_t> axes = e.options.axes ? e.options.axes(e.graph) : decltype(axes){};
  const auto size = axes.find(cut.axis.text);
  return size == axes.end() ? 1 : size->second;
}

/// The lint `absent_axis`: where no mesh of the spec has the axis, it has one rank under every layout.
void look_for_axis(Elaboration& e, const ast::Name& axis) {
  if (e.declared.meshes.empty()) return;
  for (const ast::Mesh* mesh : e.declared.meshes)
    for (const ast::Axis& known : mesh->axes)
      if (known.name.text == axis.text) return;
  e.sink->lint("absent_axis", axis.span, fmt::format("no mesh of the spec has an axis `{}`", axis.text))
      .here("it has one rank under every layout");
}

RanksDim& ranks_dim(Elaboration& e, const ast::Name& axis, int64_t size) {
  std::string name = axis.text + ".rank";
  for (RanksDim& known : e.graph.ranks_dims) {
    if (known.axis != axis.text) continue;
    if (e.size(known.dim) == size) return known;
    name = fmt::format("{}.rank_{}", axis.text, size);
  }
  return e.graph.ranks_dims.emplace_back(RanksDim{e.build.dim(name, size, axis.span), axis.text, {}, axis.span});
}

/// E0352 where the axis is taken, here or by a region around this one.
bool axis_is_free(Elaboration& e, const Region& region, const ast::Name& axis) {
  const auto has_it = [&](const Region& one) {
    return std::ranges::count(one.axes, axis.text, &Region::Axis::name) > 0;
  };
  for (const Region* around : e.regions) {
    if (!has_it(*around)) continue;
    e.error("E0352", axis.span, "a manual region over `{}` inside another", axis.text)
        .here("one rank is all that is seen of `{}` here already", axis.text)
        .label(around->span, "the outer one")
        .help("write its statements into the outer region");
    return false;
  }
  if (!has_it(region)) return true;
  e.error("E0352", axis.span, "`{}` stands twice", axis.text)
      .help(fmt::format("one list of dims stands before it: `manual a, b over {} {{ ... }}`", axis.text));
  return false;
}

/// Makes a dim local. E0351 where ranks would have unequal parts of it, E0352 where it is local already.
bool cut_dim(Elaboration& e, Frame& frame, Region& region, DimScope& dims, RanksDim& ranks, const ast::Name& name) {
  const DimId whole = dim_named(e, *frame.dims, name);
  if (!whole) return false;
  if (std::ranges::count(region.cuts, whole, &Region::Cut::whole) > 0) {
    e.error("E0352", name.span, "`{}` is cut over two axes", name.text)
        .help(fmt::format("split it before: `x[{} as outer * inner]`, and cut each part", name.text));
    return false;
  }
  const int64_t size = e.size(whole), parts = e.size(ranks.dim);
  if (size % parts != 0) {
    e.error("E0351", name.span, "`{}` = {} has no {} equal parts", name.text, size, parts)
        .here("`{}` has {} ranks, and in a manual region each has as much as the others", ranks.axis, parts)
        .label(e.graph.dim(whole).span, "declared here")
        .help(fmt::format("a size that {} divides, such as {}", parts, (size / parts + 1) * parts));
    return false;
  }
  const DimId local = twin(e, whole, ".local", size / parts);
  dims.own[name.text] = local;
  region.cuts.push_back({whole, local, ranks.dim});
  if (std::ranges::none_of(ranks.cuts, [&](const auto& c) { return c.whole == whole && c.local == local; }))
    ranks.cuts.push_back({whole, local, region.span});
  return true;
}

bool open(Elaboration& e, Frame& frame, const ast::Manual& manual, Region& region, DimScope& dims) {
  bool good = true;
  for (const ast::Cut& cut : manual.cuts) {
    const bool is_free = axis_is_free(e, region, cut.axis);
    const auto parts = parts_of(e, frame, cut);
    if (!is_free || !parts) {
      good = false;
      continue;
    }
    look_for_axis(e, cut.axis);
    RanksDim& ranks = ranks_dim(e, cut.axis, static_cast<int64_t>(*parts));
    region.axes.push_back({cut.axis.text, ranks.dim});
    for (const ast::Name& name : cut.dims) good = cut_dim(e, frame, region, dims, ranks, name) && good;
  }
  return good;
}

/// E0354 for what a block owns that has the part of a dim that a rank sees: what is stored is whole.
bool stores_wholes(Elaboration& e, const Region& region) {
  for (const Stored& stored : e.graph.stored)
    for (const Region::Cut& cut : region.cuts) {
      if (!has(stored.type.dims, cut.local)) continue;
      e.error("E0354", region.span, "`{}` would have the part of `{}` that a rank of `{}` sees", stored.path,
              e.name(cut.whole), axis_of(e, cut.ranks))
          .here("what a model stores is whole")
          .label(stored.span, "declared here")
          .help("give the block what it needs as arguments, and declare the parameter before the region");
      return false;
    }
  return true;
}

/// A name of the region, as it is known behind it.
void leave(Elaboration& e, const Frame& frame, const Region& region, const std::string& name, Binding& binding) {
  Term& term = binding.term;
  if (!term.is_tensor() && !term.is_masked()) return;
  e.build.span = binding.span;
  const ValueId value = put_together(e, region, term.value);
  if (term.keep) term.keep = put_together(e, region, term.keep);
  if (value == term.value) return;
  term.value = value;
  term.choice = nullptr;
  record_name(e, join(frame.call, name), term);
}

Binding unusable(Span span) {
  Binding binding;
  binding.term = Term::poison();
  binding.span = span;
  return binding;
}

}  // namespace

DimId ranks_of(const Elaboration& e, const std::string& axis) {
  for (const Region* region : e.regions)
    for (const Region::Axis& one : region->axes)
      if (one.name == axis) return one.ranks;
  return {};
}

const std::string& axis_of(const Elaboration& e, DimId ranks) {
  return std::ranges::find(e.graph.ranks_dims, ranks, &RanksDim::dim)->axis;
}

ValueId stand_in(Elaboration& e, const AcrossRanks& across, ValueId operand, ValueType seen) {
  const ValueId value = e.build.map(MapFunction::copy, {operand});
  e.graph.value(value).type = std::move(seen);
  e.tables.across[e.graph.value(value).producer] = across;
  return value;
}

Term seen_here(Elaboration& e, const Frame& frame, const Binding& binding, const std::string& name, Span span) {
  const bool stored = binding.kind == Binding::Kind::stored && binding.term.poisoned();
  Term term = stored ? Term::of(read_stored(e, binding)) : binding.term;
  if (!term.is_tensor() && !term.is_masked()) return term;
  for (const ValueId value : {term.value, term.keep})
    if (value && !has_left(e, value, binding, name, span)) return Term::poison();
  for (size_t i = binding.regions; i < e.regions.size(); ++i) {
    if (!stands_in(frame, *e.regions[i])) continue;
    if (!is_cut_once(e, *e.regions[i], term.value, name, span)) return Term::poison();
    const ValueId value = part_of(e, *e.regions[i], term.value);
    if (value != term.value) term.choice = nullptr;
    term.value = value;
    if (term.keep) term.keep = part_of(e, *e.regions[i], term.keep);
  }
  return term;
}

bool may_stand_here(Elaboration& e, Frame& frame, const ast::Statement& statement) {
  if (e.regions.empty()) return true;
  const Region& region = *e.regions.back();
  const auto is = [&]<class... Kinds>() { return (std::holds_alternative<Kinds>(statement.node) || ...); };
  if (is.operator()<ast::Bind, ast::Repeat, ast::Manual, ast::Require>()) return true;
  if (&frame == region.frame && is.operator()<ast::Dims>()) return true;  // declared with the region
  if (!stands_in(frame, region) && !is.operator()<ast::Update>()) return true;
  const std::string_view text = e.sources.text(statement.span);
  e.error("E0317", statement.span, "`{}` in a manual region",
          is.operator()<ast::Update>() ? "<-" : text.substr(0, text.find(' ')))
      .here("a region computes: what is stored, given or returned is whole")
      .label(region.span, "the region")
      .help("write it before or after the region");
  const auto names = [&](const auto& declared) {
    for (const ast::Name& name : declared.names) frame.names.emplace(name.text, unusable(name.span));
  };
  if (const auto* parameter = std::get_if<ast::Parameter>(&statement.node)) names(*parameter);
  if (const auto* state = std::get_if<ast::State>(&statement.node)) names(*state);
  if (const auto* port = std::get_if<ast::Port>(&statement.node)) names(*port);
  return false;
}

void manual_statement(Elaboration& e, Frame& frame, const ast::Manual& manual, Span span) {
  const Span head{span.file, span.begin, manual.cuts.back().span.end};
  Region region{&frame, e.build.body, static_cast<uint32_t>(e.graph.nodes.size()), head, {}, {}};
  DimScope dims = *frame.dims;
  if (!open(e, frame, manual, region, dims)) {
    for (const ast::Name& name : bound_names(manual.body)) frame.names.insert_or_assign(name.text, unusable(name.span));
    return;
  }
  const size_t errors = e.sink->error_count(), loops = frame.closed.size();
  DimScope* const outer = frame.dims;
  frame.dims = &dims;
  e.regions.push_back(&region);
  declare_local(e, dims, manual.body);
  statements(e, frame, manual.body);
  e.regions.pop_back();
  frame.dims = outer;
  frame.closed.erase(frame.closed.begin() + static_cast<std::ptrdiff_t>(loops), frame.closed.end());
  if (e.sink->error_count() == errors && stores_wholes(e, region)) {
    const Varying varying(e, region);
    if (e.sink->error_count() == errors) spread(e, region, varying);
  }
  for (auto& [name, binding] : frame.names) {
    if (binding.regions <= e.regions.size()) continue;
    binding.regions = e.regions.size();
    if (e.sink->error_count() > errors) binding.term = Term::poison();  // what follows from a mistake is not reported
    else leave(e, frame, region, name, binding);
  }
  std::erase_if(e.tables.across, [&](const auto& entry) {
    return std::ranges::count(region.axes, entry.second.ranks, &Region::Axis::ranks) > 0;
  });
}

}  // namespace mesh::elaboration
