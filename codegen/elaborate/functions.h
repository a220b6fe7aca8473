// functions.h: the functions that specs call, one row each: what its brackets and parentheses hold, and how it is
// checked and built. Adding a function is adding a row.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// A call whose arguments are elaborated and counted.
struct CallSite {
  std::string name;  // "`softmax`", for messages
  Span span, callee;
  std::vector<DimId> dims;
  std::vector<Span> dim_spans;  // of each listed dim; of `...` for the dims that it stands for
  std::vector<Term> arguments;
  std::vector<Span> spans;  // of the arguments
  std::map<std::string, std::pair<Term, Span>> options;
  std::map<std::string, std::pair<std::string, Span>> words;  // of Function::words: as they are quoted
  const std::vector<ast::Item>* items = nullptr;              // of Brackets::items: as they are written
  const ast::Expr* pad = nullptr;                             // of windows: as it is written
  Frame* frame = nullptr;
  std::vector<Term> further;  // results after the first

  DimId dim() const { return dims.front(); }
};

struct Function {
  enum class Brackets : uint8_t { none, one, some, items };
  std::string_view name;
  Brackets brackets;
  size_t least, most;                     // arguments without a name
  std::vector<std::string_view> options;  // arguments with one
  bool takes_masked;
  Term (*build)(Elaboration&, CallSite&);
  std::vector<std::string_view> words = {};  // arguments with a name that are words of the tool: `overflow: "drop"`
};

/// The rows called `name`: `max[d](x)` and `max(a, b)` are two.
std::vector<const Function*> functions_named(std::string_view name);
/// Every name, sorted.
std::vector<std::string> function_names();

/// `expert as pick` in brackets that hold nothing else; both the same where there is no `as`. Sizes may differ. E0310.
std::optional<std::pair<DimId, DimId>> one_as_other(Elaboration&, const CallSite&);

/// A setting that is a whole number, or a number, or a truth, known now; `otherwise` where it is not given. E0315.
std::optional<int64_t> whole_option(Elaboration&, const CallSite&, const std::string& name, int64_t otherwise);
std::optional<double> number_option(Elaboration&, const CallSite&, const std::string& name, double otherwise);
std::optional<bool> truth_option(Elaboration&, const CallSite&, const std::string& name, bool otherwise);

/// A setting that is one of the words, the first where it is not given. E0315.
std::optional<std::string> word_option(Elaboration&, const CallSite&, const std::string& name,
                                       const std::vector<std::string>& words);

/// Argument i as a tensor of indices of `over`. E0306.
ValueId index_argument(Elaboration&, const CallSite&, size_t i, DimId over);

/// E0304 unless the term is a tensor or masked value that has every dim of the brackets.
bool has_dims(Elaboration&, const CallSite&, const Term&, Span);
/// The first argument as a tensor, if it has the dim.
ValueId tensor_with(Elaboration&, const CallSite&, DimId, Span dim_span);

// One family a file.
namespace functions {
Term conv(Elaboration&, CallSite&);  // codegen/ops/conv_function.cpp
Term conv_transpose(Elaboration&, CallSite&);
Term max_pool(Elaboration&, CallSite&);  // codegen/ops/pool.cpp
Term avg_pool(Elaboration&, CallSite&);
Term elementwise(Elaboration&, CallSite&);  // functions_map.cpp
Term smaller(Elaboration&, CallSite&);
Term larger(Elaboration&, CallSite&);
Term where(Elaboration&, CallSite&);
Term stop_gradient(Elaboration&, CallSite&);
Term elu(Elaboration&, CallSite&);  // functions_composed.cpp
Term leaky_relu(Elaboration&, CallSite&);
Term sigmoid_cross_entropy(Elaboration&, CallSite&);
Term sum(Elaboration&, CallSite&);  // functions_reduce.cpp
Term mean(Elaboration&, CallSite&);
Term max(Elaboration&, CallSite&);
Term min(Elaboration&, CallSite&);
Term argmax(Elaboration&, CallSite&);
Term cumsum(Elaboration&, CallSite&);  // functions_along.cpp
Term sort(Elaboration&, CallSite&);
Term flip(Elaboration&, CallSite&);
Term roll(Elaboration&, CallSite&);
Term top_k(Elaboration&, CallSite&);
Term concat(Elaboration&, CallSite&);  // functions_shape.cpp
Term stack(Elaboration&, CallSite&);
Term pad(Elaboration&, CallSite&);
Term mask(Elaboration&, CallSite&);  // functions_softmax.cpp
Term softmax(Elaboration&, CallSite&);
Term log_softmax(Elaboration&, CallSite&);
Term logsumexp(Elaboration&, CallSite&);
Term cross_entropy(Elaboration&, CallSite&);
Term dot(Elaboration&, CallSite&);  // functions_tensor.cpp
Term outer(Elaboration&, CallSite&);
Term broadcast(Elaboration&, CallSite&);
Term take(Elaboration&, CallSite&);  // functions_indices.cpp
Term scatter_add(Elaboration&, CallSite&);
Term scatter_max(Elaboration&, CallSite&);
Term one_hot(Elaboration&, CallSite&);
Term route(Elaboration&, CallSite&);  // codegen/ops/experts_functions.cpp
Term dispatch(Elaboration&, CallSite&);
Term combine(Elaboration&, CallSite&);
Term dropped(Elaboration&, CallSite&);
Term random_uniform(Elaboration&, CallSite&);  // functions_random.cpp
Term random_normal(Elaboration&, CallSite&);
Term dropout(Elaboration&, CallSite&);
}  // namespace functions

}  // namespace mesh::elaboration
