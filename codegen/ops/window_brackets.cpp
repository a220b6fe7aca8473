// window_brackets.cpp: how the language writes windows: `h: ky stride 2 dilate 2 as h2`, and `pad:`. Sizes must fit
// exactly; where they do not, the message reckons them.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/expressions.h"
#include "codegen/ops/windows.h"

namespace mesh::elaboration {
namespace {

/// What lies around a dim before its first element and after its last.
struct Padding {
  enum class Kind : uint8_t { given, same } kind = Kind::given;
  int64_t before = 0, after = 0;
};

std::optional<int64_t> padded_by(Elaboration& e, const CallSite& site, const ast::Expr& expr) {
  Frame inside;  // where a bare dim is its size
  inside.outer = site.frame;
  inside.dims = site.frame->dims;
  inside.attributes = true;
  const Term term = expression(e, inside, expr);
  if (term.poisoned()) return {};
  const double number = term.is_number() ? term.number : -1;
  if (number == std::floor(number) && number >= 0 && number < 1e9) return static_cast<int64_t>(number);
  e.error("E0315", expr.span, "padding is a whole number of at least 0 that is known now")
      .here("this is {}", term.is_number() ? fmt::format("{}", number) : describe(e, term));
  return {};
}

std::optional<Padding> padding(Elaboration& e, const CallSite& site) {
  if (site.pad == nullptr) return Padding{};
  const auto* pair = ast::as<ast::Group>(*site.pad);
  if (const auto* word = ast::as<ast::String>(*site.pad)) {
    if (word->value == "same") return Padding{Padding::Kind::same};
    if (word->value == "valid") return Padding{};
    e.error("E0315", site.pad->span, "there is no padding called \"{}\"", word->value)
        .help("\"same\" gives as many elements as the stride allows, \"valid\" pads nothing")
        .help("a number pads both ends, `(1, 2)` by 1 before and 2 after");
    return {};
  }
  if (pair != nullptr && pair->values.size() > 2) {
    e.error("E0315", site.pad->span, "padding is before and after, {} numbers are given", pair->values.size())
        .help(
            "it is the same for every dim in the brackets; other dims are padded first, `pad[h as wider](x, before: "
            "1)`");
    return {};
  }
  const bool two = pair != nullptr && pair->values.size() == 2;
  const auto before = padded_by(e, site, two ? *pair->values[0] : *site.pad);
  const auto after = two ? padded_by(e, site, *pair->values[1]) : before;
  if (!before || !after) return {};
  return Padding{Padding::Kind::given, *before, *after};
}

/// The stride or dilation: 1 where none is written.
std::optional<int64_t> step(Elaboration& e, const std::optional<ast::Number>& written, const char* what) {
  if (!written) return 1;
  if (written->integer() && written->value >= 1 && written->value < 1e9) return static_cast<int64_t>(written->value);
  e.error("E0315", written->span, "{} is a whole number of at least 1", what).here("this is {}", written->text);
  return {};
}

/// One window whose sizes are being checked.
struct Sizes {
  Elaboration& e;
  const ast::Item& item;
  WindowedDim window;
  Padding padding;

  int64_t wide() const { return e.size(window.wide); }
  int64_t narrow() const { return e.size(window.narrow); }
  int64_t reach() const { return window.dilation * (window.size - 1); }
  int64_t room() const { return wide() + padding.before + padding.after - reach() - 1; }
  int64_t fitting() const { return room() < 0 ? 0 : room() / window.stride + 1; }
  std::string quoted_kernel() const { return window.kernel ? "`" + kernel() + "`" : kernel(); }
  std::string kernel() const { return window.kernel ? e.name(window.kernel) : std::to_string(window.size); }

  /// What stands for `same`: as many as the stride allows, an odd element of padding comes last.
  void set_same() {
    const int64_t count = (wide() + window.stride - 1) / window.stride;
    const int64_t all = std::max<int64_t>(0, (count - 1) * window.stride + reach() + 1 - wide());
    padding = {Padding::Kind::given, all / 2, all - all / 2};
  }

  /// "(h + before + after - (ky - 1) - 1) / 2 + 1 = (28 + 1 + 1 - (3 - 1) - 1) / 2 + 1 = 14"
  std::string arithmetic() const {
    const auto text = [&](const std::string& wide, const std::string& before, const std::string& after,
                          const std::string& kernel) {
      const std::string around = padding.before + padding.after > 0 ? fmt::format(" + {} + {}", before, after) : "";
      const std::string dilation = window.dilation == 1 ? "" : std::to_string(window.dilation) + " * ";
      const std::string inner = fmt::format("{}{} - {}({} - 1) - 1", wide, around, dilation, kernel);
      return window.stride == 1 ? inner + " + 1" : fmt::format("({}) / {} + 1", inner, window.stride);
    };
    const std::string names = text(e.name(window.wide), "before", "after", kernel());
    const std::string numbers = text(std::to_string(wide()), std::to_string(padding.before),
                                     std::to_string(padding.after), std::to_string(window.size));
    return names == numbers ? fmt::format("{} = {}", numbers, fitting())
                            : fmt::format("{} = {} = {}", names, numbers, fitting());
  }

  bool fits() const { return room() >= 0 && fitting() == narrow(); }
  bool fits_with(const Padding& other) const {
    Sizes padded = *this;
    if (other.kind == Padding::Kind::same) padded.set_same();
    else padded.padding = other;
    return padded.fits();
  }

  /// `all` that stand in one pair of brackets, this among them, are padded by one setting.
  bool check(bool to_wide, const std::vector<Sizes>& all) const {
    if (room() < 0) {
      e.error("E0311", item.span, "no window of {} fits into `{}`", quoted_kernel(), e.name(window.wide))
          .here("{}: a window reaches over {} elements, and there are {}", arithmetic_of_room(), reach() + 1,
                wide() + padding.before + padding.after);
      return false;
    }
    if (fitting() == narrow()) return true;
    auto report = to_wide ? e.error("E0311", item.span, "windows of {} on `{}` are {}, not the {} of `{}`",
                                    quoted_kernel(), e.name(window.wide), fitting(), narrow(), e.name(window.narrow))
                          : e.error("E0311", item.span, "windows of {} on `{}` are {}, and `{}` is {}", quoted_kernel(),
                                    e.name(window.wide), fitting(), e.name(window.narrow), narrow());
    report.here(arithmetic());
    if (to_wide) {
      const int64_t least = (narrow() - 1) * window.stride + reach() + 1 - padding.before - padding.after;
      if (least + window.stride - 1 >= 1)
        report.help(window.stride == 1
                        ? fmt::format("with {} they are {}: `dim {} = {}`", e.name(window.wide), narrow(),
                                      e.name(window.wide), least)
                        : fmt::format("they are {} where `{}` is {} to {}", narrow(), e.name(window.wide),
                                      std::max<int64_t>(least, 1), least + window.stride - 1));
      return false;
    }
    if (window.narrow != window.wide) report.help(fmt::format("`dim {} = {}`", e.name(window.narrow), fitting()));
    else
      report.help(fmt::format("`as` names the dim of the result: `{0} as {1}`, with `dim {1} = {2}`",
                              e.sources.text(item.span), free_name(), fitting()));
    if (const std::string help = way_to_pad(all); !help.empty()) report.help(help);
    return false;
  }

 private:
  std::string way_to_pad(const std::vector<Sizes>& all) const {
    const int64_t more = (narrow() - 1) * window.stride + reach() + 1 - wide();  // padding that gives so many
    if (more < 0) return "";
    const auto all_fit = [&](const Padding& with) {
      return std::ranges::all_of(all, [&](const Sizes& one) { return one.fits_with(with); });
    };
    const Padding own{Padding::Kind::given, more / 2, more - more / 2};
    if (all_fit(own))
      return own.before == own.after ? fmt::format("`pad: {}` makes them {}", own.before, narrow())
                                     : fmt::format("`pad: ({}, {})` makes them {}", own.before, own.after, narrow());
    const Sizes& first = *std::ranges::find_if(all, [](const Sizes& one) { return !one.fits(); });
    if (&first.item != &item) return "";  // of which it is said
    if (all_fit({Padding::Kind::same}))
      return "numbers pad all dims in the brackets alike; `pad: \"same\"` pads each by what it needs";
    return "numbers pad all dims in the brackets alike; others are padded first, `pad[h as wider](x, before: 1)`";
  }

  /// "h2", or what number no dim has yet.
  std::string free_name() const {
    for (int number = 2;; ++number) {
      std::string name = e.name(window.wide) + std::to_string(number);
      if (std::ranges::find(e.graph.dims, name, &Dim::name) == e.graph.dims.end()) return name;
    }
  }

  std::string arithmetic_of_room() const {
    return fmt::format("{} = {}, {} = {}", e.name(window.wide), wide(), kernel(), window.size);
  }
};

std::optional<WindowedDim> window_of(Elaboration& e, const CallSite& site, const ast::Item& item, WindowSizes sizes,
                                     bool to_wide) {
  if (item.pick.kind != ast::Pick::Kind::one || (item.as && item.as->kind != ast::Pick::Kind::one)) {
    e.error("E0310", item.span, "windows move along one dim").help("as in `h: ky stride 2 as h2`");
    return {};
  }
  const ast::Window& written = *item.window;
  WindowedDim window{};
  const DimId from = dim_named(e, *site.frame->dims, item.pick.name());
  const DimId to = item.as ? dim_named(e, *site.frame->dims, item.as->name()) : from;
  window.wide = to_wide ? to : from;
  window.narrow = to_wide ? from : to;
  if (written.size && sizes == WindowSizes::dims) {
    e.error("E0310", written.span, "{} needs the dim of its weights along which windows lie", site.name)
        .help(fmt::format("`dim ky = {}`, `{}: ky`, and weights with the dim `ky`", written.size->text,
                          item.pick.name().text));
    return {};
  }
  if (written.size) {
    const auto size = step(e, written.size, "the size of a window");
    if (!size) return {};
    window.size = *size;
  } else if (const DimId kernel = dim_named(e, *site.frame->dims, written.dim)) {
    window.size = e.size(kernel);
    if (sizes == WindowSizes::dims) window.kernel = kernel;
  } else {
    return {};
  }
  const auto stride = step(e, written.stride, "a stride"), dilation = step(e, written.dilate, "a dilation");
  if (!from || !to || !stride || !dilation) return {};
  window.stride = *stride;
  window.dilation = *dilation;
  return window;
}

/// Whether each dim stands once.
bool is_new(Elaboration& e, const WindowBrackets& brackets, const WindowedDim& window, Span span) {
  const auto twice = [&](DimId dim) {
    e.error("E0312", span, "`{}` stands twice in the brackets", e.name(dim));
    return false;
  };
  if (window.kernel && (window.kernel == window.wide || window.kernel == window.narrow)) return twice(window.kernel);
  for (const WindowedDim& other : brackets.windows)
    for (const DimId dim : {window.wide, window.narrow, window.kernel})
      if (dim && (dim == other.wide || dim == other.narrow || dim == other.kernel)) return twice(dim);
  return true;
}

}  // namespace

std::optional<WindowBrackets> window_brackets(Elaboration& e, const CallSite& site, WindowSizes sizes, bool to_wide) {
  WindowBrackets brackets;
  const auto around = padding(e, site);
  std::vector<Sizes> all;
  bool good = around.has_value();
  for (const ast::Item& item : *site.items) {
    if (item.kind() == ast::ItemKind::dim && item.pick.kind == ast::Pick::Kind::one) {
      const DimId dim = dim_named(e, *site.frame->dims, item.pick.name());
      brackets.others.push_back(dim);
      brackets.other_spans.push_back(item.span);
      good = good && dim;
      continue;
    }
    if (item.kind() != ast::ItemKind::window) {
      e.error("E0310", item.span, "the brackets of {} hold dims with windows", site.name)
          .help("as in `h: ky stride 2 as h2`");
      good = false;
      continue;
    }
    const auto window = window_of(e, site, item, sizes, to_wide);
    if (!window || !around) {
      good = false;
      continue;
    }
    Sizes checked{e, item, *window, *around};
    if (around->kind == Padding::Kind::same) checked.set_same();
    if (is_new(e, brackets, *window, item.span)) all.push_back(checked);
    else good = false;
    checked.window.before = checked.padding.before;
    brackets.windows.push_back(checked.window);
    brackets.spans.push_back(item.span);
  }
  for (const Sizes& one : all) good = one.check(to_wide, all) && good;
  const size_t most = meshrt::WindowDims{}.size();
  if (good && (brackets.windows.empty() || brackets.windows.size() > most)) {
    e.error("E0310", cover(site.items->front().span, site.items->back().span), "{} moves windows along 1 to {} dims",
            site.name, most)
        .here(brackets.windows.empty() ? "there is none" : fmt::format("{} are given", brackets.windows.size()))
        .help(fmt::format("as in `{}[h: {} as h2](...)`", site.name.substr(1, site.name.size() - 2),
                          sizes == WindowSizes::dims ? "ky" : "2 stride 2"));
    return {};
  }
  if (!good) return {};
  return brackets;
}

}  // namespace mesh::elaboration
