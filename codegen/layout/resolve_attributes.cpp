#include "codegen/layout/resolve_attributes.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/suggest.h"

namespace mesh {
namespace {

const std::vector<std::string> attribute_names{"accumulate", "cut", "microbatches", "remat", "schedule"};

bool is_text(const ast::Attribute& attribute, std::string_view text) {
  const auto* string = ast::as<ast::String>(*attribute.value);
  return string && string->value == text;
}

class Attributes {
 public:
  Attributes(const ast::Place& place, const Graph& graph, Layout& layout, DiagnosticSink& sink)
      : place_(place), graph_(graph), layout_(layout), sink_(sink) {}

  void one(const ast::Attribute& attribute, const std::set<DimId>& loops, bool general) {
    const std::string& key = attribute.key.text;
    if (std::ranges::find(attribute_names, key) == attribute_names.end()) {
      unknown(attribute);
    } else if (!general) {
      sink_.error("E0411", attribute.span, "`{}` inside a scope, `in` or pin", key)
          .here("concerns the whole step, not some values")
          .help("write it with a rule of the layout itself");
    } else if (key == "accumulate") {
      accumulate(attribute);
    } else if (key == "remat" && !is_text(attribute, "stage")) {
      remat(attribute, loops);
    }
  }

 private:
  void unknown(const ast::Attribute& attribute) {
    auto report = sink_.error("E0411", attribute.key.span, "a layout rule has no attribute `{}`", attribute.key.text);
    if (const auto near = did_you_mean(attribute.key.text, attribute_names))
      report.here("did you mean `{}`?", *near).fix(attribute.key.span, *near);
    else report.here("known are {}", fmt::join(attribute_names, ", "));
  }

  /// The dim that a rule places; unset for a merged one and where no dim of the model is called so.
  DimId dim_of(const ast::Product& product) const {
    for (uint32_t i = 0; i < graph_.dims.size(); ++i)
      if (product.names.size() == 1 && graph_.dims[i].name == product.names[0].text) return {i};
    return {};
  }

  void accumulate(const ast::Attribute& attribute) {
    const DimId dim = dim_of(place_.dims[0]);
    if (!graph_.sample_dim || dim != graph_.sample_dim || place_.dims.size() != 1) {
      auto report =
          sink_.error("E0411", attribute.span, "`accumulate` cuts the batch, which `{}` is not", place_.dims[0].text());
      if (graph_.sample_dim)
        report.help(fmt::format("write it with the dim of samples: `{} -> ... {{ accumulate: 4 }}`",
                                graph_.dim(graph_.sample_dim).name));
      else report.note("the model has no `minimize`, so its inputs have no dim of samples");
      return;
    }
    const auto* number = ast::as<ast::Number>(*attribute.value);
    if (!number || !number->integer() || number->value < 1) {
      sink_.error("E0411", attribute.value->span, "`accumulate` is the number of micro-batches of a step")
          .here("must be a whole number from 1");
      return;
    }
    constexpr double most = 1e15;  // far above any batch, and still a whole number exactly
    const int64_t batch = graph_.dim(dim).size;
    const auto count = static_cast<int64_t>(std::min(number->value, most));
    if (batch % count != 0) {
      sink_
          .error("E0412", attribute.value->span, "{} micro-batches do not divide `{}` = {}", count,
                 graph_.dim(dim).name, batch)
          .label(graph_.dim(dim).span, "the batch of one step")
          .help(fmt::format("`accumulate: {}` or a batch of {} would do", divisor_below(batch, count),
                            (batch / count + 1) * count));
      return;
    }
    layout_.accumulate = count;
    layout_.accumulate_span = attribute.span;
  }

  static int64_t divisor_below(int64_t batch, int64_t count) {
    int64_t divisor = std::min(batch, count);
    while (batch % divisor != 0) --divisor;
    return divisor;
  }

  void remat(const ast::Attribute& attribute, const std::set<DimId>& loops) {
    if (!is_text(attribute, "layer")) {
      sink_.error("E0411", attribute.value->span, "`remat` says what is computed again for the gradients")
          .here("must be \"layer\": each turn of the loop keeps only what it began with");
      return;
    }
    for (const ast::Product& product : place_.dims) {
      const DimId dim = dim_of(product);
      if (dim && loops.contains(dim)) {
        layout_.remat.insert(dim);
        continue;
      }
      sink_.error("E0411", product.span, "no `repeat` of the model runs over `{}`", product.text())
          .here("`remat` computes the turns of a `repeat` again");
    }
  }

  const ast::Place& place_;
  const Graph& graph_;
  Layout& layout_;
  DiagnosticSink& sink_;
};

}  // namespace

void resolve_attributes(const ast::Place& place, const Graph& graph, const std::set<DimId>& loops, bool general,
                        Layout& layout, DiagnosticSink& sink) {
  Attributes attributes(place, graph, layout, sink);
  for (const ast::Attribute& one : place.attributes) attributes.one(one, loops, general);
}

const ast::Attribute* pipeline_attribute(const ast::Place& place) {
  for (const ast::Attribute& one : place.attributes)
    for (std::string_view key : {"cut", "microbatches", "schedule"})
      if (one.key.text == key || (one.key.text == "remat" && is_text(one, "stage"))) return &one;
  return nullptr;
}

}  // namespace mesh
