#include "codegen/graph/elaborate/functions.h"

#include <algorithm>

namespace mesh::elaboration {
namespace {

const std::vector<Function>& table() {
  using B = Function::Brackets;
  namespace f = functions;
  static const std::vector<Function> rows = {
      // name, brackets, arguments (least, most), options, takes masked values, builder
      {"abs", B::none, 1, 1, {}, false, f::elementwise},
      {"argmax", B::one, 1, 1, {}, true, f::argmax},
      {"broadcast", B::some, 1, 1, {}, false, f::broadcast},
      {"cos", B::none, 1, 1, {}, false, f::elementwise},
      {"cross_entropy", B::one, 2, 2, {"smoothing"}, false, f::cross_entropy},
      {"dot", B::some, 2, 2, {}, false, f::dot},
      {"dropout", B::none, 1, 1, {"rate"}, false, f::dropout},
      {"dropout", B::some, 1, 1, {"rate"}, false, f::dropout},
      {"erf", B::none, 1, 1, {}, false, f::elementwise},
      {"exp", B::none, 1, 1, {}, false, f::elementwise},
      {"floor", B::none, 1, 1, {}, false, f::elementwise},
      {"gelu", B::none, 1, 1, {}, false, f::elementwise},
      {"gelu_tanh", B::none, 1, 1, {}, false, f::elementwise},
      {"log", B::none, 1, 1, {}, false, f::elementwise},
      {"log_softmax", B::one, 1, 1, {}, true, f::log_softmax},
      {"logsumexp", B::some, 1, 1, {}, true, f::logsumexp},
      {"mask", B::none, 2, 2, {}, false, f::mask},
      {"max", B::none, 2, 2, {}, false, f::larger},
      {"max", B::some, 1, 1, {}, true, f::max},
      {"mean", B::some, 1, 1, {"where"}, true, f::mean},
      {"min", B::none, 2, 2, {}, false, f::smaller},
      {"min", B::some, 1, 1, {}, true, f::min},
      {"one_hot", B::one, 1, 1, {}, false, f::one_hot},
      {"outer", B::none, 2, 2, {}, false, f::outer},
      {"random_normal", B::none, 0, 0, {"mean", "std"}, false, f::random_normal},
      {"random_normal", B::some, 0, 0, {"mean", "std"}, false, f::random_normal},
      {"random_uniform", B::none, 0, 0, {"low", "high"}, false, f::random_uniform},
      {"random_uniform", B::some, 0, 0, {"low", "high"}, false, f::random_uniform},
      {"relu", B::none, 1, 1, {}, false, f::elementwise},
      {"rsqrt", B::none, 1, 1, {}, false, f::elementwise},
      {"sigmoid", B::none, 1, 1, {}, false, f::elementwise},
      {"silu", B::none, 1, 1, {}, false, f::elementwise},
      {"sin", B::none, 1, 1, {}, false, f::elementwise},
      {"softmax", B::one, 1, 1, {}, true, f::softmax},
      {"sqrt", B::none, 1, 1, {}, false, f::elementwise},
      {"stop_gradient", B::none, 1, 1, {}, false, f::stop_gradient},
      {"sum", B::some, 1, 1, {"where"}, true, f::sum},
      {"take", B::one, 2, 2, {}, false, f::take},
      {"tanh", B::none, 1, 1, {}, false, f::elementwise},
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

std::optional<std::string> function_not_built(std::string_view name) {
  static const std::map<std::string_view, std::string_view> planned = {
      {"avg_pool", ""}, {"collect", "a fetch of a name inside `repeat` gives its value of every turn"},
      {"combine", ""},  {"concat", ""},
      {"conv", ""},     {"cumsum", ""},
      {"dispatch", ""}, {"max_pool", ""},
      {"route", ""},    {"sort", ""},
      {"stack", ""},    {"top_k", ""},
  };
  const auto found = planned.find(name);
  if (found == planned.end()) return {};
  return std::string(found->second);
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

}  // namespace mesh::elaboration
