// Masks, what may read them whole, and cross-entropy.
#include <algorithm>
#include <cmath>

#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/terms.h"
#include "codegen/graph/op.h"

namespace mesh::elaboration::functions {
namespace {

using F = MapFunction;

/// Casts where another element type is not what it has to be; E0313 unless it is a float.
ValueId float_operand(Elaboration& e, const CallSite& site, size_t i) {
  const Term& term = site.arguments[i];
  const ValueId x = term.is_masked() ? term.value : tensor_of(e, term, site.spans[i]);
  if (!x || is_float(e.type(x).element)) return x;
  e.error("E0313", site.spans[i], "{} needs floats", site.name)
      .here(describe(e, term))
      .help(fmt::format("write the cast that is meant: `f32({})`", e.sources.text(site.spans[i])));
  return {};
}

Term over_dims(Elaboration& e, CallSite& site, const Op& op) {
  const ValueId x = float_operand(e, site, 0);
  if (!x || !has_dims(e, site, site.arguments[0], site.spans[0])) return Term::poison();
  e.build.span = site.span;
  std::vector<ValueId> inputs{x};
  if (site.arguments[0].is_masked()) inputs.push_back(site.arguments[0].keep);
  return Term::of(e.build.value(op, inputs));
}

/// An option of at least 0 and below `limit`, 0 where it is not given; E0315.
std::optional<double> share(Elaboration& e, const CallSite& site, const std::string& name, double limit) {
  const auto option = site.options.find(name);
  if (option == site.options.end()) return 0;
  const auto& [term, span] = option->second;
  if (term.poisoned()) return {};
  if (term.is_number() && term.number >= 0 && term.number < limit) return term.number;
  e.error("E0315", span, "`{}` must be a number of at least 0{}", name,
          limit < HUGE_VAL ? fmt::format(" and below {}", limit) : "")
      .here("this is {}", describe(e, term));
  return {};
}

/// The product that a value is, but for scaling and other maps of one operand that has `dim`; null where it is none.
const Node* product_below(const Elaboration& e, ValueId value, DimId dim) {
  constexpr int deepest = 8;
  for (int depth = 0; depth < deepest; ++depth) {
    const Value& at = e.graph.value(value);
    if (!at.producer) return nullptr;
    const Node& node = e.graph.node(at.producer);
    if (definition(node.op).effort(node.op) == Effort::product) return &node;
    if (!is_elementwise(node.op)) return nullptr;
    const auto has_dim = [&](ValueId input) { return contains(e.type(input).dims, dim); };
    if (std::count_if(node.inputs.begin(), node.inputs.end(), has_dim) != 1) return nullptr;
    value = *std::find_if(node.inputs.begin(), node.inputs.end(), has_dim);
  }
  return nullptr;
}

/// `softmax[seq](dot[head](q, k))` with `seq` in both: each entry has met itself alone. Attention renames one.
void lint_diagonal(Elaboration& e, const CallSite& site) {
  const Term& term = site.arguments[0];
  const Node* product = product_below(e, term.value, site.dim());
  if (product == nullptr) return;
  for (const ValueId operand : product->inputs)
    if (!contains(e.type(operand).dims, site.dim())) return;
  const std::string dim = e.name(site.dim());
  e.sink
      ->lint("diagonal_softmax", site.span, "{} over `{}` of a product in which every `{}` meets itself alone",
             site.name, dim, dim)
      .here(describe(e, term))
      .label(product->span, fmt::format("both operands have `{}`", dim))
      .help(fmt::format(
          "to meet every other, rename it in one, with `dim key = {0}`: `k[{0} as key]`, and `softmax[key]`", dim));
}

}  // namespace

Term mask(Elaboration& e, CallSite& site) {
  ValueId score = float_operand(e, site, 0);
  if (site.arguments[1].is_number()) {
    e.error("E0314", site.spans[1], "the second argument of `mask` must be a bool")
        .here(describe(e, site.arguments[1]));
    return Term::poison();
  }
  const ValueId keep = tensor_of(e, site.arguments[1], site.spans[1]);
  if (!score || !keep) return Term::poison();
  if (e.type(keep).element != Type::boolean) {
    e.error("E0314", site.spans[1], "the second argument of `mask` must be a bool")
        .here(describe(e, site.arguments[1]))
        .help("it says which entries are kept, as in `position[seq] >= position[key]`");
    return Term::poison();
  }
  e.build.span = site.span;
  score = e.build.broadcast(score, missing_from(e.type(score).dims, e.type(keep).dims));
  return Term::masked(score, keep);
}

Term softmax(Elaboration& e, CallSite& site) {
  Term result = over_dims(e, site, SoftmaxOp{site.dim()});
  if (!result.poisoned()) lint_diagonal(e, site);
  return result;
}

Term log_softmax(Elaboration& e, CallSite& site) { return over_dims(e, site, LogSoftmaxOp{site.dim()}); }
Term logsumexp(Elaboration& e, CallSite& site) { return over_dims(e, site, LogSumExpOp{site.dims}); }

/// -log softmax at the target, of which `smoothing` is shared by all entries, plus `z_loss` times the square of the
/// log-sum-exp, which keeps logits near zero.
Term cross_entropy(Elaboration& e, CallSite& site) {
  if (const Term* first = &site.arguments[0], *second = &site.arguments[1];
      first->is_tensor() && second->is_tensor() && e.type(first->value).index_of == site.dim() &&
      is_float(e.type(second->value).element)) {
    e.error("E0313", site.spans[0], "`cross_entropy` needs floats")
        .here(describe(e, *first))
        .label(site.spans[1], describe(e, *second))
        .help(fmt::format("the logits come first: `cross_entropy[{}]({}, {})`", e.name(site.dim()),
                          e.sources.text(site.spans[1]), e.sources.text(site.spans[0])));
    return Term::poison();
  }
  ValueId logits = float_operand(e, site, 0);
  const ValueId target = tensor_of(e, site.arguments[1], site.spans[1]);
  if (!logits || !target || !has_dims(e, site, site.arguments[0], site.spans[0])) return Term::poison();
  const DimId over = site.dim();
  if (e.type(target).index_of != over) {
    e.error("E0306", site.spans[1], "the target of `cross_entropy[{0}]` must be index({0})", e.name(over))
        .help(fmt::format("if its numbers count along `{0}`: `index({0})({1})`", e.name(over),
                          e.sources.text(site.spans[1])))
        .here(describe(e, site.arguments[1]));
    return Term::poison();
  }
  const std::vector<DimId> rows = missing_from({over}, e.type(logits).dims);
  const auto extra = missing_from(rows, e.type(target).dims);
  if (!extra.empty()) {
    e.error("E0303", site.spans[1], "the target has {}, which the logits do not", quoted(e, extra))
        .here(describe(e, site.arguments[1]))
        .label(site.spans[0], describe(e, site.arguments[0]));
    return Term::poison();
  }
  const auto smoothing = share(e, site, "smoothing", 1), z_loss = share(e, site, "z_loss", HUGE_VAL);
  if (!smoothing || !z_loss) return Term::poison();
  e.build.span = site.span;
  if (e.type(logits).element != Type::f64) logits = e.build.cast(logits, default_float(e));
  const Type element = e.type(logits).element;
  const DimId dims[] = {over};
  const ValueId all = e.build.value(LogSumExpOp{{over}}, {logits});
  const ValueId is_target = e.build.map(F::equal, {target, e.build.position(over)});
  const ValueId picked =
      e.build.reduce(Reduce::sum, e.build.map(F::where, {is_target, logits, e.build.literal(0, element)}), dims);
  const auto with_z = [&](ValueId loss) {
    if (*z_loss > 0) loss = e.build.add(loss, e.build.multiply(e.build.map(F::square, {all}), *z_loss));
    return Term::of(loss);
  };
  if (*smoothing == 0) return with_z(e.build.subtract(all, picked));
  const ValueId count = e.build.reduce(Reduce::sum, e.build.broadcast(e.build.literal(1, element), dims), dims);
  const ValueId average = e.build.divide(e.build.reduce(Reduce::sum, logits, dims), count);
  const ValueId mostly = e.build.subtract(all, e.build.multiply(picked, 1 - *smoothing));
  return with_z(e.build.subtract(mostly, e.build.multiply(average, *smoothing)));
}

}  // namespace mesh::elaboration::functions
