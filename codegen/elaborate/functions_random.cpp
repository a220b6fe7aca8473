// Random numbers as values, and dropout. Every draw has a path of its own, from which its numbers follow together with
// the seed, the step and the turns of the loops around it.
#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/repeat.h"
#include "codegen/elaborate/terms.h"

namespace mesh::elaboration::functions {
namespace {

using F = MapFunction;

/// "layer.attn.dropout", the second one of a body "layer.attn.dropout_2".
std::string path_of(Elaboration& e, const CallSite& site) {
  const std::string path = join(e.build.scope, site.name.substr(1, site.name.size() - 2));
  const int number = ++e.tables.draws[path];
  return number == 1 ? path : fmt::format("{}_{}", path, number);
}

ValueId draw(Elaboration& e, const CallSite& site, Distribution distribution, const std::vector<DimId>& dims) {
  std::vector<ValueId> turns;
  for (const Loop* loop : e.loops) turns.push_back(loop_index(e, loop->dim));
  e.build.span = site.span;
  return e.build.value(RandomOp{distribution, path_of(e, site), default_float(e), dims, dims}, turns);
}

/// E0355 in a manual region: the numbers of a draw are counted over the whole value, of which a rank sees a part.
bool may_draw(Elaboration& e, const CallSite& site) {
  if (e.regions.empty()) return true;
  e.error("E0355", site.span, "{} in a manual region", site.name)
      .label(e.regions.back()->span, "the region")
      .help("draw before the region: inside, each rank sees its part of the numbers");
  return false;
}

/// A number that is known now; E0315 where the option is another term.
std::optional<double> number(Elaboration& e, const CallSite& site, const std::string& name, double otherwise) {
  const auto option = site.options.find(name);
  if (option == site.options.end()) return otherwise;
  const auto& [term, span] = option->second;
  if (term.is_number()) return term.number;
  e.error("E0315", span, "`{}` of {} must be a number that is known now", name, site.name)
      .here("this is {}", describe(e, term));
  return {};
}

/// numbers * scale + shift
Term scaled(Elaboration& e, ValueId numbers, double scale, double shift) {
  if (scale != 1) numbers = e.build.multiply(numbers, scale);
  if (shift != 0) numbers = e.build.add(numbers, shift);
  return Term::of(numbers);
}

}  // namespace

Term random_uniform(Elaboration& e, CallSite& site) {
  if (!may_draw(e, site)) return Term::poison();
  const auto low = number(e, site, "low", 0), high = number(e, site, "high", 1);
  if (!low || !high) return Term::poison();
  if (*low >= *high) {
    e.error("E0310", site.span, "`random_uniform` needs low < high, not {} and {}", *low, *high);
    return Term::poison();
  }
  return scaled(e, draw(e, site, Distribution::uniform, site.dims), *high - *low, *low);
}

Term random_normal(Elaboration& e, CallSite& site) {
  if (!may_draw(e, site)) return Term::poison();
  const auto mean = number(e, site, "mean", 0), deviation = number(e, site, "std", 1);
  if (!mean || !deviation) return Term::poison();
  if (*deviation < 0) {
    e.error("E0310", site.options.at("std").second, "`std` must not be negative: {}", *deviation);
    return Term::poison();
  }
  return scaled(e, draw(e, site, Distribution::normal, site.dims), *deviation, *mean);
}

/// x times 1 / (1 - rate) where a uniform number is at least the rate, else 0; x itself where nothing is trained.
/// Brackets name the dims along which entries are dropped one by one; along the others all fall together.
Term dropout(Elaboration& e, CallSite& site) {
  const ValueId x = tensor_of(e, site.arguments[0], site.spans[0]);
  if (!x || !has_dims(e, site, Term::of(x), site.spans[0])) return Term::poison();
  const ValueType type = e.type(x);
  if (!is_float(type.element)) {
    e.error("E0313", site.span, "`dropout` of {} values",
            to_string(e.graph, ValueType{type.element, type.index_of, {}}))
        .label(site.spans[0], to_string(e.graph, type))
        .help(fmt::format("write the cast that is meant: `f32({})`", e.sources.text(site.spans[0])));
    return Term::poison();
  }
  if (site.options.count("rate") == 0) {
    e.error("E0310", site.span, "`dropout` needs `rate:`").help("`dropout(x, rate: 0.1)` drops a tenth of the entries");
    return Term::poison();
  }
  const auto rate = number(e, site, "rate", 0);
  if (!rate) return Term::poison();
  if (*rate < 0 || *rate >= 1) {
    e.error("E0310", site.options.at("rate").second, "`rate` must be at least 0 and below 1, not {}", *rate);
    return Term::poison();
  }
  if (!may_draw(e, site)) return Term::poison();
  if (*rate == 0 || !e.options.purpose.training()) return Term::of(x);
  const ValueId numbers = draw(e, site, Distribution::uniform, site.dims.empty() ? type.dims : site.dims);
  const ValueId kept = e.build.map(F::greater_equal, {numbers, e.build.literal(*rate, e.type(numbers).element)});
  const auto factor = [&](double value) { return e.build.literal(value, type.element); };
  return Term::of(e.build.multiply(x, e.build.map(F::where, {kept, factor(1 / (1 - *rate)), factor(0)})));
}

}  // namespace mesh::elaboration::functions
