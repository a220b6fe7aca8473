#include "codegen/elaborate/precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "frontend/ast.h"
#include "frontend/suggest.h"

namespace mesh {
namespace {

using meshrt::Type;

struct PrecisionKey {
  const char *key, *meaning;
};
constexpr std::array precision_keys = {PrecisionKey{"compute", "what products read their operands in"},
                                       PrecisionKey{"params", "what parameters are kept in"},
                                       PrecisionKey{"reduce", "what ranks add up gradients in"},
                                       PrecisionKey{"loss_scale", "what the loss is multiplied by for its gradients"}};

/// A type is the precision in which all is kept and moved in it that may be.
constexpr std::array types = {"f32", "f64", "bf16", "f16"};

std::optional<Type> narrow_type(const std::string& name) {
  if (name == "bf16") return Type::bf16;
  return name == "f16" ? std::optional(Type::f16) : std::nullopt;
}

/// "`compute`, `params`, `reduce` and `loss_scale`"
std::string keys_text() {
  return fmt::format("`{}`, `{}`, `{}` and `{}`", precision_keys[0].key, precision_keys[1].key, precision_keys[2].key,
                     precision_keys[3].key);
}

/// Where torch.cuda.amp.GradScaler starts.
constexpr LossScale dynamic_scale{65536, true};
/// Where nothing is said of it: gradients below 2^-25 are lost in f16.
std::optional<LossScale> usual_scale(const Precision& precision) {
  const bool in_f16 = precision.products == Type::f16 || precision.sums == Type::f16;
  return in_f16 ? std::optional(dynamic_scale) : std::nullopt;
}
/// By a scale between these gradients are multiplied and divided without a number that f32 rounds otherwise.
constexpr double least_scale = 1e-37, most_scale = 1e37;

class PrecisionResolver {
 public:
  explicit PrecisionResolver(DiagnosticSink& sink) : sink_(sink) {}

  Precision block(const ast::Precision& block) {
    Precision precision;
    for (const ast::Attribute& one : block.attributes) setting(one, precision);
    const auto is_scale = [](const ast::Attribute& one) { return one.key.text == "loss_scale"; };
    if (std::ranges::none_of(block.attributes, is_scale)) precision.loss_scale = usual_scale(precision);
    return precision;
  }

 private:
  void setting(const ast::Attribute& one, Precision& precision) {
    const std::string& key = one.key.text;
    const auto known = std::ranges::find_if(precision_keys, [&](const PrecisionKey& of) { return key == of.key; });
    if (known == precision_keys.end()) return unknown(one);
    if (key == "loss_scale") return loss_scale(one, precision);
    const auto* path = ast::as<ast::Path>(*one.value);
    const std::string name = path && path->simple() ? path->parts.front().text : "";
    if (name == "f32") return;
    if (const std::optional<Type> type = narrow_type(name)) {
      (key == "compute" ? precision.products : key == "params" ? precision.params : precision.sums) = *type;
      return;
    }
    auto report = sink_.error("E0342", one.value->span, "`{}` of a precision is no such type", key);
    if (name == "f64") report.here("f64 is for the whole program").help("`--precision f64` computes all of it in f64");
    else
      report.here("{}", known->meaning)
          .help(key == "compute"  ? "it is `f32`, or `bf16` or `f16` for products of half the bytes"
                : key == "params" ? "it is `f32`, or `bf16` or `f16` for half the memory"
                                  : "it is `f32`, or `bf16` or `f16` for half the bytes");
  }

  void loss_scale(const ast::Attribute& one, Precision& precision) {
    const ast::Expr& value = ast::without_parentheses(*one.value);
    const auto* path = ast::as<ast::Path>(value);
    const std::string name = path && path->simple() ? path->parts.front().text : "";
    if (name == "none") return;
    const auto* number = ast::as<ast::Number>(value);
    if (name == "dynamic") precision.loss_scale = dynamic_scale;
    else if (number && number->value >= least_scale && number->value <= most_scale)
      precision.loss_scale = LossScale{number->value, false};
    else
      sink_.error("E0342", one.value->span, "`loss_scale` of a precision is no such number")
          .here("{}", number && number->value > 0 ? "f32 has no room for gradients that are multiplied by it"
                                                  : "what the loss is multiplied by for its gradients")
          .help(fmt::format("it is `dynamic`, a number from {:.0e} to {:.0e} such as `1024`, or `none`", least_scale,
                            most_scale));
  }

  void unknown(const ast::Attribute& one) {
    std::vector<std::string> keys;
    keys.reserve(std::size(precision_keys));
    for (const PrecisionKey& of : precision_keys) keys.emplace_back(of.key);
    auto report = sink_.error("E0342", one.key.span, "a precision has no `{}`", one.key.text);
    if (const auto near = did_you_mean(one.key.text, keys)) report.here("did you mean `{}`?", *near);
    else report.help("it has " + keys_text());
  }

  DiagnosticSink& sink_;
};

}  // namespace

Precision resolve_precision(const SourceProgram& program, const std::string& name, DiagnosticSink& sink) {
  std::vector<std::string> names(types.begin(), types.end());
  bool found = name.empty() || std::ranges::find(names, name) != names.end();
  Precision chosen;
  chosen.f64 = name == "f64";
  if (const std::optional<Type> type = narrow_type(name)) chosen.products = chosen.params = chosen.sums = *type;
  chosen.loss_scale = usual_scale(chosen);
  std::vector<Span> spans(names.size());
  for (const Ast& file : program.files)
    for (const ast::Decl& decl : file.decls) {
      const auto* block = std::get_if<ast::Precision>(&decl.node);
      if (block == nullptr) continue;
      const Precision precision = PrecisionResolver(sink).block(*block);
      const std::string& own = block->name.text;
      if (const auto first = std::ranges::find(names, own); first != names.end()) {
        auto report = sink.error("E0204", block->name.span, "a precision is called `{}` already", own);
        const Span span = spans[static_cast<size_t>(first - names.begin())];
        if (!span.known())
          report.here("that is a type").help("choose another name: a type is a precision without a block");
        else report.here("again here").label(span, "first here");
        continue;
      }
      names.push_back(own);
      spans.push_back(block->name.span);
      if (own != name) continue;
      chosen = precision;
      found = true;
    }
  if (found) return chosen;
  auto report = sink.error("E0341", Span{}, "no precision is called `{}`", name);
  if (const auto near = did_you_mean(name, names)) report.help(fmt::format("did you mean `{}`?", *near));
  else report.note(fmt::format("there is `{}`", fmt::format("{}", fmt::join(names, "`, `"))));
  if (names.size() == types.size())
    report.help("a line of the spec makes one: `precision mixed { compute: bf16, params: f32, reduce: f32 }`");
  return chosen;
}

}  // namespace mesh
