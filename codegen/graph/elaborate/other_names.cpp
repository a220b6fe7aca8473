#include "codegen/graph/elaborate/other_names.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

namespace mesh::elaboration {
namespace {

std::string plain(std::string_view name) {
  std::string text;
  for (const char letter : name)
    if (letter != '_') text += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

}  // namespace

bool same_word(std::string_view a, std::string_view b) { return plain(a) == plain(b); }

std::string_view written_here(std::string_view name) {
  constexpr std::string_view product = "a product is summed over dims that it names: `dot[d](x, w)`",
                             order = "dims have names, so nothing has to be transposed; `x[a as b]` renames one",
                             shape = "`x[heads as kv * group]` splits a dim, `x[kv * group as heads]` merges two",
                             sizes = "what lacks a dim is repeated along it by name; `broadcast[d](x)` says so",
                             spread = "`mean[d]((x - mean[d](x)) ^ 2)` is the variance, `sqrt` of it the deviation",
                             cast = "types are casts: `f32(x)`, `i32(x)`, `real(x)`",
                             bounds = "`min(max(x, low), high)`", norm = "`sqrt(sum[d](x ^ 2))`",
                             logic = "`max[d](f32(x)) > 0` where any, `min[d](f32(x)) > 0` where all hold",
                             joined = "`concat[a + b as c](x, y)` joins along a dim, `stack[d](x, y)` along a new one",
                             rounding = "`floor(x + 0.5)` is the nearest whole number, `-floor(-x)` the one above",
                             table = "`take[d](table, index)` reads entries of `d`",
                             masked = "`where(condition, a, b)` chooses; `mask` is an op of its own: `meshc ops mask`";
  static const std::map<std::string_view, std::string_view> all = {
      {"matmul", product},
      {"mm", product},
      {"bmm", product},
      {"einsum", product},
      {"inner", product},
      {"transpose", order},
      {"permute", order},
      {"swapaxes", order},
      {"movedim", order},
      {"reshape", shape},
      {"view", shape},
      {"flatten", shape},
      {"squeeze", sizes},
      {"unsqueeze", sizes},
      {"expand", sizes},
      {"tile", sizes},
      {"layer_norm", "`import std.nn` at the top of the file brings `layer_norm`"},
      {"rms_norm", "`import std.nn` at the top of the file brings `rms_norm`"},
      {"linear", "`import std.nn` at the top of the file brings `linear`"},
      {"feed_forward", "`import std.nn` at the top of the file brings `feed_forward`"},
      {"sinusoid", "`import std.nn` at the top of the file brings `sinusoid`"},
      {"var", spread},
      {"variance", spread},
      {"std", spread},
      {"float", cast},
      {"int", cast},
      {"double", cast},
      {"astype", cast},
      {"to", cast},
      {"clamp", bounds},
      {"clip", bounds},
      {"norm", norm},
      {"any", logic},
      {"all", logic},
      {"cat", joined},
      {"concatenate", joined},
      {"ceil", rounding},
      {"round", rounding},
      {"gather", table},
      {"embedding", table},
      {"masked_fill", masked},
      {"softplus", "`log(1 + exp(x))`"},
      {"swish", "it is called `silu`"},
      {"mse_loss", "`mean[d]((x - y) ^ 2)`"},
      {"bce", "`-(y * log(p) + (1 - y) * log(1 - p))`"},
      {"arange", "`position[d]` counts along a dim"},
      {"iota", "`position[d]` counts along a dim"},
      {"zeros_like", "a number is spread by name: write `0`"},
      {"ones_like", "a number is spread by name: write `1`"},
  };
  const auto found = std::ranges::find_if(all, [&](const auto& row) { return same_word(row.first, name); });
  return found == all.end() ? "" : found->second;
}

std::string_view setting_written_here(std::string_view name) {
  static const std::map<std::string_view, std::string_view> all = {
      {"rate", "lr"},       {"learning_rate", "lr"}, {"step_size", "lr"},       {"eta", "lr"},
      {"eps", "epsilon"},   {"wd", "weight_decay"},  {"decay", "weight_decay"}, {"l2", "weight_decay"},
      {"max_norm", "clip"}, {"clip_norm", "clip"},   {"grad_clip", "clip"},     {"max_grad_norm", "clip"},
      {"b1", "beta1"},      {"b2", "beta2"},         {"beta", "beta1"},         {"betas", "beta1"},
      {"rho", "alpha"},
  };
  const auto found = std::ranges::find_if(all, [&](const auto& row) { return same_word(row.first, name); });
  return found == all.end() ? "" : found->second;
}

}  // namespace mesh::elaboration
