#include "codegen/elaborate/functions.h"

#include <algorithm>
#include <cmath>

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/terms.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

const std::vector<Function>& table() {
  using B = Function::Brackets;
  namespace f = functions;
  static const std::vector<Function> rows = {
      // name, brackets, arguments (least, most), options, takes masked values, builder
      {"abs", B::none, 1, 1, {}, false, f::elementwise},
      {"argmax", B::one, 1, 1, {}, true, f::argmax},
      {"avg_pool", B::items, 1, 1, {"pad"}, false, f::avg_pool},
      {"broadcast", B::some, 1, 1, {}, false, f::broadcast},
      {"combine", B::none, 2, 2, {}, false, f::combine},
      {"concat", B::items, 1, 1000, {}, false, f::concat},
      {"conv", B::items, 2, 2, {"pad"}, false, f::conv},
      {"conv_transpose", B::items, 2, 2, {"pad"}, false, f::conv_transpose},
      {"cos", B::none, 1, 1, {}, false, f::elementwise},
      {"cross_entropy", B::one, 2, 2, {"smoothing", "z_loss"}, false, f::cross_entropy},
      {"cumsum", B::one, 1, 1, {}, false, f::cumsum},
      {"dispatch", B::none, 2, 2, {}, false, f::dispatch},
      {"dot", B::some, 2, 2, {}, false, f::dot},
      {"dropped", B::none, 1, 1, {}, false, f::dropped},
      {"dropout", B::none, 1, 1, {"rate"}, false, f::dropout},
      {"dropout", B::some, 1, 1, {"rate"}, false, f::dropout},
      {"elu", B::none, 1, 1, {"alpha"}, false, f::elu},
      {"erf", B::none, 1, 1, {}, false, f::elementwise},
      {"exp", B::none, 1, 1, {}, false, f::elementwise},
      {"expm1", B::none, 1, 1, {}, false, f::elementwise},
      {"flip", B::one, 1, 1, {}, false, f::flip},
      {"floor", B::none, 1, 1, {}, false, f::elementwise},
      {"gelu", B::none, 1, 1, {}, false, f::elementwise},
      {"gelu_tanh", B::none, 1, 1, {}, false, f::elementwise},
      {"leaky_relu", B::none, 1, 1, {"slope"}, false, f::leaky_relu},
      {"log", B::none, 1, 1, {}, false, f::elementwise},
      {"log1p", B::none, 1, 1, {}, false, f::elementwise},
      {"log_softmax", B::one, 1, 1, {}, true, f::log_softmax},
      {"logsumexp", B::some, 1, 1, {}, true, f::logsumexp},
      {"mask", B::none, 2, 2, {}, false, f::mask},
      {"max", B::none, 2, 2, {}, false, f::larger},
      {"max", B::some, 1, 1, {}, true, f::max},
      {"max_pool", B::items, 1, 1, {"pad"}, false, f::max_pool},
      {"mean", B::some, 1, 1, {"where"}, true, f::mean},
      {"min", B::none, 2, 2, {}, false, f::smaller},
      {"min", B::some, 1, 1, {}, true, f::min},
      {"one_hot", B::one, 1, 1, {}, false, f::one_hot},
      {"outer", B::none, 2, 2, {}, false, f::outer},
      {"pad", B::items, 1, 1, {"before", "value"}, false, f::pad},
      {"random_normal", B::none, 0, 0, {"mean", "std"}, false, f::random_normal},
      {"random_normal", B::some, 0, 0, {"mean", "std"}, false, f::random_normal},
      {"random_uniform", B::none, 0, 0, {"low", "high"}, false, f::random_uniform},
      {"random_uniform", B::some, 0, 0, {"low", "high"}, false, f::random_uniform},
      {"relu", B::none, 1, 1, {}, false, f::elementwise},
      {"roll", B::one, 1, 1, {"by"}, false, f::roll},
      {"round", B::none, 1, 1, {}, false, f::elementwise},
      {"route", B::some, 1, 2, {}, false, f::route, {"overflow", "first"}},
      {"rsqrt", B::none, 1, 1, {}, false, f::elementwise},
      {"scatter_add", B::items, 2, 2, {}, false, f::scatter_add},
      {"scatter_max", B::items, 2, 2, {}, false, f::scatter_max},
      {"sigmoid", B::none, 1, 1, {}, false, f::elementwise},
      {"sigmoid_cross_entropy", B::none, 2, 2, {}, false, f::sigmoid_cross_entropy},
      {"sign", B::none, 1, 1, {}, false, f::elementwise},
      {"silu", B::none, 1, 1, {}, false, f::elementwise},
      {"sin", B::none, 1, 1, {}, false, f::elementwise},
      {"softmax", B::one, 1, 1, {}, true, f::softmax},
      {"softplus", B::none, 1, 1, {}, false, f::elementwise},
      {"sort", B::one, 1, 1, {"descending"}, false, f::sort},
      {"sqrt", B::none, 1, 1, {}, false, f::elementwise},
      {"stack", B::one, 1, 1000, {}, false, f::stack},
      {"stop_gradient", B::none, 1, 1, {}, false, f::stop_gradient},
      {"sum", B::some, 1, 1, {"where"}, true, f::sum},
      {"take", B::one, 2, 2, {}, false, f::take},
      {"tanh", B::none, 1, 1, {}, false, f::elementwise},
      {"top_k", B::items, 1, 1, {}, false, f::top_k},
      {"where", B::none, 3, 3, {}, false, f::where},
  };
  return rows;
}

}  // namespace

std::vector<const Function*> functions_named(std::string_view name) {
  std::vector<const Function*> found;
  for (const Function& row : table())
    if (row.name == name) found.push_back(&row);
  return found;
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const Function& row : table())
    if (names.empty() || names.back() != row.name) names.emplace_back(row.name);
  return names;
}

std::optional<std::pair<DimId, DimId>> one_as_other(Elaboration& e, const CallSite& site) {
  const ast::Item& item = site.items->front();
  const bool as_other = item.kind() == ast::ItemKind::rename || (item.kind() == ast::ItemKind::dim && !item.as);
  if (site.items->size() != 1 || !as_other || item.pick.kind != ast::Pick::Kind::one) {
    e.error("E0310", cover(site.items->front().span, site.items->back().span), "{} takes one dim as another", site.name)
        .help(fmt::format("as in `{}[a as b](x)`", site.name.substr(1, site.name.size() - 2)));
    return {};
  }
  const DimId from = dim_named(e, *site.frame->dims, item.pick.name());
  const DimId to = item.as ? dim_named(e, *site.frame->dims, item.as->name()) : from;
  if (!from || !to) return {};
  return std::pair(from, to);
}

namespace {

const std::pair<Term, Span>* option(const CallSite& site, const std::string& name) {
  const auto found = site.options.find(name);
  return found == site.options.end() ? nullptr : &found->second;
}

}  // namespace

std::optional<double> number_option(Elaboration& e, const CallSite& site, const std::string& name, double otherwise) {
  const auto* given = option(site, name);
  if (given == nullptr) return otherwise;
  if (given->first.is_number()) return given->first.number;
  e.error("E0315", given->second, "`{}:` must be a number that is known now", name)
      .here("this is {}", describe(e, given->first));
  return {};
}

std::optional<int64_t> whole_option(Elaboration& e, const CallSite& site, const std::string& name, int64_t otherwise) {
  const auto number = number_option(e, site, name, static_cast<double>(otherwise));
  if (!number) return {};
  if (std::floor(*number) == *number && std::abs(*number) < 9e15) return static_cast<int64_t>(*number);
  e.error("E0315", option(site, name)->second, "`{}:` must be a whole number", name);
  return {};
}

std::optional<bool> truth_option(Elaboration& e, const CallSite& site, const std::string& name, bool otherwise) {
  const auto* given = option(site, name);
  if (given == nullptr) return otherwise;
  if (given->first.is_truth()) return given->first.truth;
  e.error("E0315", given->second, "`{}:` is `true` or `false`", name).here("this is {}", describe(e, given->first));
  return {};
}

std::optional<std::string> word_option(Elaboration& e, const CallSite& site, const std::string& name,
                                       const std::vector<std::string>& words) {
  const auto given = site.words.find(name);
  if (given == site.words.end()) return words.front();
  const auto& [word, span] = given->second;
  if (std::ranges::count(words, word) > 0) return word;
  auto report = e.error("E0315", span, "`{}:` is not one of {}", name, quoted(words));
  if (const auto near = did_you_mean(word, words)) report.here("did you mean \"{}\"?", *near);
  return {};
}

bool has_dims(Elaboration& e, const CallSite& site, const Term& term, Span span) {
  const bool has_type = term.is_tensor() || term.is_masked();
  for (size_t i = 0; i < site.dims.size(); ++i) {
    if (has_type && contains(e.type(term.value).dims, site.dims[i])) continue;
    const std::string dim = e.name(site.dims[i]);
    auto report = e.error("E0304", site.dim_spans[i], "{} over `{}`: its operand has no dim `{}`", site.name, dim, dim);
    report.label(span, describe(e, term));
    return false;
  }
  return true;
}

ValueId tensor_with(Elaboration& e, const CallSite& site, DimId dim, Span dim_span) {
  const ValueId x = tensor_of(e, site.arguments[0], site.spans[0]);
  if (!x) return {};
  CallSite one = site;
  one.dims = {dim};
  one.dim_spans = {dim_span};
  return has_dims(e, one, site.arguments[0], site.spans[0]) ? x : ValueId{};
}

}  // namespace mesh::elaboration
