#include "codegen/elaborate/other_names.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "frontend/suggest.h"

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

const std::vector<OtherName>& other_names() {
  constexpr std::string_view
      product = "a product is summed over dims that it names: `dot[d](x, w)`",
      order = "dims have names, so nothing has to be transposed; `x[a as b]` renames one",
      shape = "`x[heads as kv * group]` splits a dim, `x[kv * group as heads]` merges two",
      sizes = "what lacks a dim is repeated along it by name; `broadcast[d](x)` says so",
      spread = "`mean[d]((x - mean[d](x)) ^ 2)`", cast = "types are casts: `f32(x)`, `i32(x)`, `real(x)`",
      bounds = "`min(max(x, low), high)`", norm = "`sqrt(sum[d](x ^ 2))`",
      any = "`max[d](f32(k)) > 0`, where `k` holds anywhere along `d`",
      all = "`min[d](f32(k)) > 0`, where `k` holds everywhere along `d`",
      joined = "`concat[a + b as c](x, y)` joins along a dim, `stack[two](x, y)` along a new one",
      table = "`take[d](table, i)` reads entries of `d`",
      chosen =
          "`take[d](x, i)` reads along `d` at indices `i`, at one of its own for each element of the dims that both "
          "have",
      added = "`scatter_add[a as d](x, i)` adds up the elements along `a` at their indices `i` of `d`",
      masked = "`where(k, x, y)` chooses; `mask` is an op of its own: `meshc ops mask`",
      logits = "`sigmoid_cross_entropy(x, p)` takes logits, and loses nothing at large ones",
      bce =
          "`sigmoid_cross_entropy(x, p)` takes the logits `x`, before `sigmoid`: a probability that has "
          "reached 0 or 1 has lost them",
      squares = "`mean[d]((x - y) ^ 2)`", distances = "`mean[d](abs(x - y))`",
      counted = "`position[d]` counts along a dim", no_angle = "there is no inverse of `sin`, `cos` and `tanh`",
      windows = "`conv[d: three](x, w, pad: \"same\")`: windows as long as `three` move along `d`; `meshc ops conv`",
      largest = "`max_pool[d: 2 stride 2 as half](x)`: windows of 2 move along `d`, two at a time",
      average = "`avg_pool[d: 2 stride 2 as half](x)`: windows of 2 move along `d`, two at a time",
      reduced = "in a manual region `all_reduce` adds up what the ranks have, or takes the largest or smallest",
      no_product = "there is no product along a dim, and no running one";
  static const std::vector<OtherName> all_names = {
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
      {"batch_norm", "`import std.nn` at the top of the file brings `batch_norm`"},
      {"group_norm", "`import std.nn` at the top of the file brings `group_norm`"},
      {"instance_norm", "`import std.nn` at the top of the file brings `instance_norm`"},
      {"linear", "`import std.nn` at the top of the file brings `linear`"},
      {"feed_forward", "`import std.nn` at the top of the file brings `feed_forward`"},
      {"sinusoid", "`import std.nn` at the top of the file brings `sinusoid`"},
      {"var", spread},
      {"variance", spread},
      {"std", "`sqrt(mean[d]((x - mean[d](x)) ^ 2))`"},
      {"float", cast},
      {"int", cast},
      {"double", cast},
      {"astype", cast},
      {"to", cast},
      {"clamp", bounds},
      {"clip", bounds},
      {"norm", norm},
      {"any", any},
      {"all", all},
      {"cat", joined},
      {"concatenate", joined},
      {"maximum", "`max(x, y)`"},
      {"minimum", "`min(x, y)`"},
      {"pow", "`x ^ y`"},
      {"power", "`x ^ y`"},
      {"square", "`x ^ 2`"},
      {"reciprocal", "`1 / x`"},
      {"mod", "`x % y`, of the sign of `x`; `x - floor(x / y) * y` is of that of `y`"},
      {"fmod", "`x % y`"},
      {"argmin", "`argmax[d](-x)`"},
      {"argsort", "`least, order = top_k[d](-x)`: `order` are the indices"},
      {"median", "`sort[d](x)[d = size[d] / 2]`, where the size of `d` is even the upper one"},
      {"ceil", "`-floor(-x)`"},
      {"trunc", "`sign(x) * floor(abs(x))`"},
      {"tan", "`sin(x) / cos(x)`"},
      {"sinh", "`(expm1(x) - expm1(-x)) / 2`"},
      {"cosh", "`(exp(x) + exp(-x)) / 2`"},
      {"asin", no_angle},
      {"acos", no_angle},
      {"atan", no_angle},
      {"arcsin", no_angle},
      {"arccos", no_angle},
      {"arctan", no_angle},
      {"atanh", no_angle},
      {"sinc", "`sin(x) / x`, where `x` is not 0"},
      {"cov", "`mean[d]((x - mean[d](x)) * (y - mean[d](y)))`"},
      {"isin", "comparisons broadcast both ways: `max[d](f32(x == y)) > 0` where `x` is among the `y` along `d`"},
      {"rrelu", "`leaky_relu(x)` has one slope"},
      {"mat", "a matrix is a value of two dims: `real[a, b]`"},
      {"erfc", "there is no complement of `erf`"},
      {"selu", "`1.0507009873554805 * elu(x, alpha: 1.6732632423543772)`"},
      {"celu", "`elu(x)`"},
      {"prelu", "`where(x > 0, x, a * x)`, with a parameter `a`"},
      {"glu", "`x * sigmoid(y)`, of two products `x` and `y`"},
      {"swiglu", "`silu(x) * y`, of two products `x` and `y`"},
      {"geglu", "`gelu(x) * y`, of two products `x` and `y`"},
      {"softmin", "`softmax[d](-x)`"},
      {"cummax", "there is no running maximum"},
      {"cummin", "there is no running minimum"},
      {"logit", "`log(p) - log1p(-p)`"},
      {"exp2", "`2 ^ x`"},
      {"log2", "`log(x) / log(2)`"},
      {"log10", "`log(x) / log(10)`"},
      {"logaddexp", "`max(x, y) + log1p(exp(-abs(x - y)))`"},
      {"log_sigmoid", "`-softplus(-x)`"},
      {"swish", "it is called `silu`: `silu(x)`"},
      {"mish", "`x * tanh(softplus(x))`"},
      {"relu6", "`min(relu(x), 6)`"},
      {"isnan", "`x != x`"},
      {"prod", no_product},
      {"cumprod", no_product},
      {"conv1d", windows},
      {"conv2d", windows},
      {"conv3d", windows},
      {"convolve", windows},
      {"max_pool1d", largest},
      {"max_pool2d", largest},
      {"max_pool3d", largest},
      {"avg_pool1d", average},
      {"avg_pool2d", average},
      {"avg_pool3d", average},
      {"conj", "numbers are real"},
      {"gather", chosen},
      {"take_along_axis", chosen},
      {"scatter", added},
      {"index_add", added},
      {"segment_sum", added},
      {"bincount", "`scatter_add[a as d](1, i)`"},
      {"index_select", table},
      {"embedding", table},
      {"masked_fill", masked},
      {"mse_loss", squares},
      {"l1_loss", distances},
      {"mae_loss", distances},
      {"bce", bce},
      {"binary_cross_entropy", bce},
      {"bce_loss", bce},
      {"bce_with_logits", logits},
      {"binary_cross_entropy_with_logits", logits},
      {"nll_loss", "`cross_entropy[d](x, i)` takes logits"},
      {"grad", "`minimize` takes the gradient of the loss; there is none of other values"},
      {"arange", counted},
      {"iota", counted},
      {"psum", reduced},
      {"pmax", reduced},
      {"pmin", reduced},
      {"psum_scatter", "in a manual region it is called `reduce_scatter`"},
      {"ppermute", "in a manual region `permute` hands what each rank has to the next one"},
      {"axis_index", "in a manual region it is called `coordinate`"},
      {"shard_map", "a region that says what one rank does begins with `manual`"},
      {"zeros_like", "a number is spread by name: write `0`"},
      {"ones_like", "a number is spread by name: write `1`"},
  };
  return all_names;
}

std::string_view written_here(std::string_view name) {
  const auto& all = other_names();
  const auto found = std::ranges::find_if(all, [&](const OtherName& row) { return same_word(row.name, name); });
  return found == all.end() ? "" : found->written;
}

std::optional<std::string> setting_meant(std::string_view name, const std::vector<std::string>& names) {
  static const std::vector<std::pair<std::string_view, std::string_view>> elsewhere = {
      {"rate", "lr"},
      {"learning_rate", "lr"},
      {"step_size", "lr"},
      {"eta", "lr"},
      {"eps", "epsilon"},
      {"wd", "weight_decay"},
      {"decay", "weight_decay"},
      {"l2", "weight_decay"},
      {"max_norm", "clip"},
      {"clip_norm", "clip"},
      {"grad_clip", "clip"},
      {"max_grad_norm", "clip"},
      {"b1", "beta1"},
      {"b2", "beta2"},
      {"beta", "beta1"},
      {"betas", "beta1"},
      {"rho", "alpha"},
      {"p", "rate"},
      {"padding", "pad"},
      {"label_smoothing", "smoothing"},
      {"negative_slope", "slope"},
      {"alpha", "slope"},
      {"shift", "by"},
      {"shifts", "by"},
      {"minval", "low"},
      {"maxval", "high"},
      {"scale", "std"},
      {"loc", "mean"},
  };
  for (const auto& [other, here] : elsewhere)
    if (same_word(other, name) && std::ranges::count(names, here) > 0) return std::string(here);
  return did_you_mean(name, names);
}

}  // namespace mesh::elaboration
