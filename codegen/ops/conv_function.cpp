// conv_function.cpp: convolutions in the language: `conv[h: ky stride 2 as h2, w: kx as w2, channel](x, w, pad: 3)` and
// `conv_transpose[h2: ky stride 2 as h, channel](y, w)`. Dims of the brackets without a window are summed over, as in
// `dot`; others that both operands have pair up: they are groups, or channels each by itself.
#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/terms.h"
#include "codegen/ops/conv.h"

namespace mesh::elaboration::functions {
namespace {

/// The two operands and what the brackets say of them.
struct Call {
  Elaboration& e;
  CallSite& site;
  ConvTensor makes;
  WindowBrackets brackets;
  ValueId from, weights;

  const Dims& dims(ValueId value) const { return e.type(value).dims; }
  DimId moving(const WindowedDim& window) const { return makes == ConvTensor::y ? window.wide : window.narrow; }
  DimId made(const WindowedDim& window) const { return makes == ConvTensor::y ? window.narrow : window.wide; }

  DiagnosticBuilder error(const char* code, Span span, const std::string& what) const {
    auto report = e.error(code, span, "{}", what);
    report.label(site.spans[0], describe(e, Term::of(from))).label(site.spans[1], describe(e, Term::of(weights)));
    return report;
  }

  /// E0304: the operand has each dim along which windows move, the weights that of their size.
  bool have_windows() const {
    for (size_t i = 0; i < brackets.windows.size(); ++i) {
      const WindowedDim& window = brackets.windows[i];
      if (!contains(dims(from), moving(window))) {
        error("E0304", brackets.spans[i],
              fmt::format("windows move along `{}`, which the first operand lacks", e.name(moving(window))));
        return false;
      }
      if (!contains(dims(weights), window.kernel)) {
        error("E0304", brackets.spans[i],
              fmt::format("the weights have no dim `{}`, the size of the windows", e.name(window.kernel)));
        return false;
      }
      for (const DimId dim : {window.wide, window.narrow})
        if (contains(dims(weights), dim)) {
          error("E0312", brackets.spans[i],
                fmt::format("the weights have dim `{}`, along which windows move", e.name(dim)));
          return false;
        }
      if (contains(dims(from), window.kernel)) {
        error("E0312", brackets.spans[i],
              fmt::format("the first operand has dim `{}`, the size of the windows", e.name(window.kernel)))
            .help(fmt::format("rename it in one of them: `x[{} as other]`", e.name(window.kernel)));
        return false;
      }
    }
    return true;
  }

  /// E0301: what is summed over stands in both.
  bool have_contracted() const {
    for (size_t i = 0; i < brackets.others.size(); ++i) {
      const DimId dim = brackets.others[i];
      const bool left = contains(dims(from), dim), right = contains(dims(weights), dim);
      if (left && right) continue;
      const std::string who = left || right
                                  ? fmt::format("`{}` does not have it", e.sources.text(site.spans[left ? 1 : 0]))
                                  : std::string("neither operand has it");
      error("E0301", brackets.other_spans[i], fmt::format("cannot contract over `{}`: {}", e.name(dim), who));
      return false;
    }
    return true;
  }

  /// The first operand's dims, the made ones in the places of those along which windows move, then the weights' new
  /// ones. E0312 for one that would stand twice.
  std::optional<Dims> result() const {
    Dims all = makes == ConvTensor::y ? narrowed(dims(from), brackets.windows) : widened(dims(from), brackets.windows);
    std::erase_if(all, [&](DimId dim) { return contains(brackets.others, dim); });
    for (const DimId dim : dims(weights))
      if (!contains(all, dim) && !contains(brackets.others, dim) && !contains(kernel_dims(brackets.windows), dim))
        all.push_back(dim);
    for (size_t i = 0; i < brackets.windows.size(); ++i)
      if (std::ranges::count(all, made(brackets.windows[i])) > 1) {
        error("E0312", brackets.spans[i],
              fmt::format("the value would have dim `{}` twice", e.name(made(brackets.windows[i]))));
        return {};
      }
    return all;
  }
};

ValueId numbers(Elaboration& e, const CallSite& site, size_t i) {
  const ValueId value = tensor_of(e, site.arguments[i], site.spans[i]);
  if (!value) return {};
  if (is_float(e.type(value).element)) return value;
  e.error("E0309", site.spans[i], "{} multiplies floats", site.name)
      .here(describe(e, site.arguments[i]))
      .help(fmt::format("write the cast that is meant: `real({})`", e.sources.text(site.spans[i])));
  return {};
}

Term convolve(Elaboration& e, CallSite& site, ConvTensor makes) {
  auto brackets = window_brackets(e, site, WindowSizes::dims, makes == ConvTensor::x);
  const ValueId from = numbers(e, site, 0), weights = numbers(e, site, 1);
  if (!brackets || !from || !weights) return Term::poison();
  const auto pair = meet(e, site.arguments[0], site.arguments[1], site.spans[0], site.spans[1], site.callee, site.name);
  if (!pair) return Term::poison();
  const Call call{e, site, makes, std::move(*brackets), pair->left, pair->right};
  if (!call.have_windows() || !call.have_contracted()) return Term::poison();
  const auto result = call.result();
  if (!result) return Term::poison();
  e.build.span = site.span;
  return Term::of(e.build.value(Conv{makes, call.brackets.windows, *result}.op(), {pair->left, pair->right}));
}

}  // namespace

Term conv(Elaboration& e, CallSite& site) { return convolve(e, site, ConvTensor::y); }
Term conv_transpose(Elaboration& e, CallSite& site) { return convolve(e, site, ConvTensor::x); }

}  // namespace mesh::elaboration::functions
