#include "codegen/commands/reshard_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "frontend/suggest.h"

namespace mesh {
namespace {

constexpr int64_t most_ranks = int64_t{1} << 18, most_elements = int64_t{1} << 45;

struct Word {
  std::string_view text;  // a name, a number, a sign; empty at the end
  Span span;
  bool is_name() const {
    return !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_');
  }
};

/// The words of one option, with their places.
class Words {
 public:
  Words(const std::string& option, const std::string& text, SourceMap& sources) {
    const FileId file = sources.add(option, text);
    const std::string_view all = sources.text(file);
    const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    for (uint32_t at = 0; at < all.size();) {
      uint32_t end = at + 1;
      if (std::isspace(static_cast<unsigned char>(all[at]))) {
        at = end;
        continue;
      }
      if (in_word(all[at]))
        while (end < all.size() && in_word(all[end])) ++end;
      else if (all.substr(at, 2) == "->") ++end;
      words_.push_back({all.substr(at, end - at), {file, at, end}});
      at = end;
    }
    const auto size = static_cast<uint32_t>(all.size());
    words_.push_back({{}, {file, size, size}});
  }

  const Word& peek() const { return words_[at_]; }
  const Word& next() { return at_ + 1 < words_.size() ? words_[at_++] : words_[at_]; }
  bool at_end() const { return peek().text.empty(); }
  bool take(std::string_view text) {
    if (peek().text != text) return false;
    next();
    return true;
  }

 private:
  std::vector<Word> words_;
  size_t at_ = 0;
};

class Reader {
 public:
  Reader(SourceMap& sources, DiagnosticSink& sink) : sources_(sources), sink_(sink) {}

  std::optional<ReshardQuestion> read(const ReshardArguments& arguments) {
    if (!mesh(arguments.mesh) || !shape(arguments.shape)) return {};
    asked_.type.element = arguments.type;
    const auto from = placement("--from", arguments.from), to = placement("--to", arguments.to);
    if (!from || !to) return {};
    asked_.from = *from;
    asked_.to = *to;
    return pending_sums() ? std::optional(std::move(asked_)) : std::nullopt;
  }

 private:
  struct Size {
    Word name;
    int64_t size;
  };

  bool expected(const Word& found, const std::string& what, const std::string& help) {
    sink_
        .error("E0101", found.span, "expected {}, found {}", what,
               found.text.empty() ? "the end" : fmt::format("`{}`", found.text))
        .help(help);
    return false;
  }

  /// "x=4,y=2". Nothing when an error was reported.
  std::optional<std::vector<Size>> sizes(const std::string& option, const std::string& text, const std::string& what,
                                         int64_t most) {
    Words words(option, text, sources_);
    const std::string help =
        fmt::format("`{} {}` gives {} and their sizes", option, option == "--mesh" ? "x=4,y=2" : "a=16,b=16", what);
    std::vector<Size> all;
    do {
      const Word name = words.next();
      if (!name.is_name()) return expected(name, "a name", help), std::nullopt;
      if (!words.take("=")) return expected(words.peek(), "`=` and a size", help), std::nullopt;
      const Word number = words.next();
      std::string digits(number.text);
      std::erase(digits, '_');
      int64_t size = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
      if (digits.empty() || (error == std::errc() && end != digits.data() + digits.size()) ||
          error == std::errc::invalid_argument)
        return expected(number, "a whole number from 1", help), std::nullopt;
      if (error != std::errc() || size < 1 || size > most) {
        sink_.error("E0118", number.span, "`{}` is no size", number.text).here("a whole number from 1 to {}", most);
        return {};
      }
      for (const Size& known : all)
        if (known.name.text == name.text) {
          sink_.error("E0204", name.span, "two {} are called `{}`", what, name.text)
              .label(known.name.span, "the first")
              .help("give one of them another name");
          return {};
        }
      all.push_back({name, size});
    } while (words.take(","));
    if (!words.at_end()) return expected(words.peek(), "`,` or the end", help), std::nullopt;
    return all;
  }

  bool mesh(const std::string& text) {
    const auto axes = sizes("--mesh", text, "axes", most_ranks);
    if (!axes) return false;
    int64_t stride = 1;
    for (const Size& axis : *axes)
      asked_.mesh.axes.push_back({std::string(axis.name.text), axis.size, 1, axis.name.span});
    for (size_t at = asked_.mesh.axes.size(); at-- > 0;) {
      asked_.mesh.axes[at].stride = stride;
      stride *= asked_.mesh.axes[at].size;
      if (stride <= most_ranks) continue;
      sink_
          .error("E0409", cover(axes->front().name.span, axes->back().name.span), "the mesh has more than {} ranks",
                 most_ranks)
          .help("the sizes of its axes are multiplied; give smaller ones");
      return false;
    }
    return true;
  }

  bool shape(const std::string& text) {
    const auto dims = sizes("--shape", text, "dims", most_elements);
    if (!dims) return false;
    int64_t elements = 1;
    for (const Size& dim : *dims) {
      asked_.type.dims.push_back(DimId{static_cast<uint32_t>(asked_.graph.dims.size())});
      asked_.graph.dims.push_back({std::string(dim.name.text), dim.size, "", dim.name.span});
      if (dim.size > most_elements / elements) {
        sink_.error("E0221", dim.name.span, "the tensor has more elements than can be counted")
            .here("more than {} with this dim", most_elements)
            .help("give smaller dims");
        return false;
      }
      elements *= dim.size;
    }
    return true;
  }

  /// "a -> x * y; b -> none; partial z"; a dim without a rule is whole. Nothing when an error was reported.
  std::optional<Placement> placement(const std::string& option, const std::string& text) {
    Words words(option, text, sources_);
    Placement read = Placement::whole(asked_.type.dims.size());
    std::vector<std::optional<Word>> ruled(read.dims.size());
    used_.assign(asked_.mesh.axes.size(), {});
    if (words.take("none")) {
      if (!words.at_end()) return expected(words.peek(), "the end behind `none`", rule_help), std::nullopt;
      return read;
    }
    while (!words.at_end()) {
      const Word first = words.next();
      if (!first.is_name()) return expected(first, "a dim or `partial`", rule_help), std::nullopt;
      // A dim may be called `partial`: then `->` follows.
      if (first.text == "partial" && words.peek().text != "->") {
        if (!pending(words, read)) return {};
      } else {
        const auto dim = dim_named(first);
        if (!dim || !rule(first, *dim, words, read, ruled)) return {};
      }
      if (!words.at_end() && !words.take(";")) return expected(words.peek(), "`;` or the end", rule_help), std::nullopt;
    }
    std::ranges::sort(read.partial);
    if (option == "--to") to_pending_ = used_;
    return read;
  }

  bool rule(const Word& name, size_t dim, Words& words, Placement& read, std::vector<std::optional<Word>>& ruled) {
    if (!words.take("->")) return expected(words.peek(), "`->`", rule_help);
    if (ruled[dim]) {
      sink_.error("E0406", name.span, "two rules of equal rank place dim `{}`", name.text)
          .here("the second one")
          .label(ruled[dim]->span, "the first")
          .help("both axes together are a product: `dim -> first * second`");
      return false;
    }
    ruled[dim] = name;
    if (words.take("none")) return true;
    do {
      const auto axis = axis_for(words.next(), name);
      if (!axis) return false;
      if (asked_.mesh.axes[*axis].size > 1) read.dims[dim].axes.push_back(*axis);
    } while (words.take("*"));
    return deal(words, read.dims[dim]);
  }

  /// "zigzag" or "rounds 2" behind the axes.
  bool deal(Words& words, DimPlacement& read) {
    const int64_t parts = asked_.mesh.size(read.axes);
    if (words.take("zigzag")) {
      if (parts > 1) read.deal = meshrt::zigzag(parts);
    } else if (words.take("rounds")) {
      const Word number = words.next();
      int64_t count = 0;
      const auto [end, error] = std::from_chars(number.text.data(), number.text.data() + number.text.size(), count);
      if (error != std::errc() || end != number.text.data() + number.text.size() || count < 1 || count > most_ranks)
        return expected(number, "in how many rounds", rule_help);
      if (parts > 1 && count > 1) read.deal = meshrt::rounds(parts, count);
    }
    return true;
  }

  bool pending(Words& words, Placement& read) {
    do {
      const Word name = words.next();
      const auto axis = axis_for(name, Word{"a sum", name.span});
      if (!axis) return false;
      if (asked_.mesh.axes[*axis].size > 1) read.partial.push_back({*axis, Reduce::sum});
    } while (words.take(","));
    return true;
  }

  std::optional<size_t> dim_named(const Word& name) {
    std::vector<std::string> names;
    for (const Dim& dim : asked_.graph.dims) names.push_back(dim.name);
    const auto found = std::ranges::find(names, name.text);
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
    auto report = sink_.error("E0403", name.span, "the tensor has no dim `{}`", name.text);
    proposed(report, name, names, "its dims");
    return {};
  }

  /// The axis, for a dim or for the sum that is pending over it; each axis does one thing.
  std::optional<AxisId> axis_for(const Word& name, const Word& use) {
    std::vector<std::string> names;
    for (const MeshAxis& axis : asked_.mesh.axes) names.push_back(axis.name);
    if (!name.is_name()) return expected(name, "an axis of the mesh", rule_help), std::nullopt;
    const auto found = std::ranges::find(names, name.text);
    if (found == names.end()) {
      auto report = sink_.error("E0404", name.span, "the mesh has no axis `{}`", name.text);
      proposed(report, name, names, "its axes");
      return {};
    }
    const auto axis = static_cast<AxisId>(found - names.begin());
    if (const auto& before = used_[axis]) {
      sink_.error("E0401", name.span, "axis `{}` is used twice", name.text)
          .here("for {} here", in_words(use))
          .label(before->axis.span, fmt::format("for {} here", in_words(before->use)))
          .help("an axis splits one dim, or has a sum pending over it: take it out in one place");
      return {};
    }
    used_[axis] = Use{name, use};
    return axis;
  }
  static std::string in_words(const Word& use) {
    return use.text == "a sum" ? std::string(use.text) : fmt::format("dim `{}`", use.text);
  }

  static void proposed(DiagnosticBuilder& report, const Word& name, const std::vector<std::string>& names,
                       const char* what) {
    if (const auto near = did_you_mean(name.text, names)) report.here("did you mean `{}`?", *near);
    else report.here("{}: {}", what, some_of(names));
  }

  /// E0101 for a sum that is to pend in the end and does not at the beginning.
  bool pending_sums() {
    for (const Partial& partial : asked_.to.partial) {
      if (std::ranges::count(asked_.from.partial, partial) > 0) continue;
      const Word& axis = to_pending_[partial.axis]->axis;
      sink_.error("E0101", axis.span, "no movement leaves a sum over `{}` pending", axis.text)
          .here("complete in `--from`")
          .help(fmt::format("leave `partial {0}` out of `--to`, or write it in `--from` as well", axis.text));
      return false;
    }
    return true;
  }

  static constexpr const char* rule_help =
      "rules are `a -> x * y`, apart by `;`, with `zigzag` or `rounds 2` behind the axes where elements are dealt so; "
      "`partial x` where a sum is pending; `none` for a whole tensor";
  struct Use {
    Word axis, use;
  };

  SourceMap& sources_;
  DiagnosticSink& sink_;
  ReshardQuestion asked_;
  std::vector<std::optional<Use>> used_, to_pending_;  // by axis
};

}  // namespace

std::optional<ReshardQuestion> read_question(const ReshardArguments& arguments, SourceMap& sources,
                                             DiagnosticSink& sink) {
  return Reader(sources, sink).read(arguments);
}

}  // namespace mesh
