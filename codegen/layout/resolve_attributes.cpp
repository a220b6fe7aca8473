#include "codegen/layout/resolve_attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "codegen/layout/resolve_remat.h"
#include "frontend/suggest.h"

namespace mesh {
namespace {

const std::vector<std::string> attribute_names{"accumulate",   "backward", "buffers", "chunks", "cut",
                                               "microbatches", "outer",    "own",     "owns",   "remat",
                                               "rounds",       "schedule", "sync"};

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
    } else if (key == "owns" || key == "rounds") {
      return;  // of where the dim lies: deal_of
    } else if (!general) {
      sink_.error("E0411", attribute.span, "`{}` inside a scope, `in` or pin", key)
          .here("concerns the whole step, not some values")
          .help("write it with a rule of the layout itself");
    } else if (key == "accumulate") {
      accumulate(attribute);
    } else if (key == "remat") {
      resolve_remat(place_, attribute, graph_, loops, layout_, sink_);
    }
  }

 private:
  void unknown(const ast::Attribute& attribute) {
    auto report = sink_.error("E0411", attribute.key.span, "a layout rule has no attribute `{}`", attribute.key.text);
    if (const auto near = did_you_mean(attribute.key.text, attribute_names))
      report.here("did you mean `{}`?", *near).fix(attribute.key.span, *near);
    else report.here("known are {}", fmt::join(attribute_names, ", "));
  }

  void accumulate(const ast::Attribute& attribute) {
    const DimId dim = dim_of(graph_, place_.dims[0]);
    if (!graph_.sample_dim || dim != graph_.sample_dim || place_.dims.size() != 1) {
      std::vector<std::string> dims;
      for (const ast::Product& one : place_.dims) dims.push_back(one.text());
      auto report =
          sink_.error("E0411", attribute.span, "`accumulate` cuts the batch, which `{}` is not", fmt::join(dims, ", "));
      if (graph_.sample_dim)
        report.help(fmt::format("write it with the dim of samples: `{} -> ... {{ accumulate: 4 }}`",
                                graph_.dim(graph_.sample_dim).name));
      else report.note("the model has no `minimize`, so its inputs have no dim of samples");
      return;
    }
    const auto* number = ast::as<ast::Number>(*attribute.value);
    constexpr double most = 1e9;  // far above any batch
    if (!number || !number->integer() || number->value < 1 || number->value > most) {
      sink_.error("E0411", attribute.value->span, "`accumulate` is the number of micro-batches of a step")
          .here("must be a whole number from 1 to {:.0f}", most);
      return;
    }
    const auto count = static_cast<int64_t>(number->value);
    if (layout_.accumulate_span.known()) {
      sink_.error("E0411", attribute.span, "`accumulate` where the batch is cut already")
          .here("both cut the batch")
          .label(layout_.accumulate_span, "the first")
          .help(layout_.pipeline ? "leave out `accumulate`: a pipeline adds up the gradients of its micro-batches"
                                 : "leave one of them out");
      return;
    }
    layout_.accumulate = count;
    layout_.accumulate_span = attribute.span;
  }

  const ast::Place& place_;
  const Graph& graph_;
  Layout& layout_;
  DiagnosticSink& sink_;
};

}  // namespace

void check_micro_batches(const Graph& graph, const Layout& layout, DiagnosticSink& sink) {
  const int64_t count = layout.accumulate, replicas = layout.replicas.count;
  if (count == 1 || graph.generation) return;  // what writes texts takes them as one batch
  const Dim& batch = graph.dim(graph.sample_dim);
  const int64_t own = batch.size / replicas;
  if (own % count == 0) return;
  int64_t fewer = std::min(own, count);
  while (own % fewer != 0) --fewer;
  const std::string whole = fmt::format("`{}` = {}", batch.name, batch.size);
  auto report = sink.error("E0412", layout.accumulate_span, "{} micro-batches do not divide {}", count,
                           replicas == 1 ? whole : fmt::format("the {} samples of a replica", own));
  if (replicas == 1) report.label(batch.span, "the batch of one step");
  else report.label(layout.replicas.span, "each of {} replicas has its part of {}", replicas, whole);
  const int64_t larger = (own / count + 1) * count * replicas;
  if (layout.pipeline) report.help(fmt::format("`microbatches: {}` or a batch of {} would do", fewer, larger));
  else report.help(fmt::format("`accumulate: {}` or a batch of {} would do", fewer, larger));
}

void resolve_attributes(const ast::Place& place, const Graph& graph, const std::set<DimId>& loops, bool general,
                        Layout& layout, DiagnosticSink& sink) {
  Attributes attributes(place, graph, layout, sink);
  for (const ast::Attribute& one : place.attributes) attributes.one(one, loops, general);
}

DimId dim_of(const Graph& graph, const ast::Product& product) {
  for (uint32_t i = 0; i < graph.dims.size(); ++i)
    if (product.names.size() == 1 && graph.dims[i].name == product.names[0].text) return {i};
  return {};
}

const std::vector<const char*> pipeline_attributes{"microbatches", "schedule", "cut",     "chunks",
                                                   "own",          "buffers",  "backward"};

const ast::Attribute* attribute_of(const ast::Place& place, std::string_view key) {
  const auto found = std::ranges::find(place.attributes, key, [](const ast::Attribute& one) { return one.key.text; });
  return found == place.attributes.end() ? nullptr : &*found;
}

namespace {

/// "0..3, 8..10; 3..8": the ranges of each rank, apart by `;`. Nothing for another text.
std::optional<std::vector<std::vector<meshrt::IndexRange>>> table_of(std::string text) {
  std::erase(text, ' ');
  std::vector<std::vector<meshrt::IndexRange>> table(1);
  const char *at = text.data(), *end = at + text.size();
  const auto number = [&](int64_t& value) {
    const auto [next, error] = std::from_chars(at, end, value);
    const bool good = error == std::errc();
    at = next;
    return good;
  };
  const auto take = [&](std::string_view word) {
    if (!std::string_view(at, end).starts_with(word)) return false;
    at += word.size();
    return true;
  };
  while (at != end) {
    if (take(";")) {
      table.emplace_back();
      continue;
    }
    meshrt::IndexRange range;
    if (!number(range.begin) || !take("..") || !number(range.end) || range.begin >= range.end) return {};
    table.back().push_back(range);
    if (!take(",") && at != end && *at != ';') return {};
  }
  return table;
}

/// What is wrong with a table of a dim of `size`; "" if nothing.
std::string fault_of(const std::vector<std::vector<meshrt::IndexRange>>& table, int64_t size) {
  std::vector<meshrt::IndexRange> all;
  for (const auto& part : table) {
    if (!std::ranges::is_sorted(part)) return "the ranges of a rank must ascend";
    all.insert(all.end(), part.begin(), part.end());
  }
  std::ranges::sort(all);
  int64_t next = 0;
  for (const meshrt::IndexRange& range : all) {
    if (range.begin < next) return fmt::format("element {} is dealt twice", range.begin);
    if (range.begin > next) return fmt::format("element {} is dealt to nobody", next);
    next = range.end;
  }
  if (next < size) return fmt::format("element {} is dealt to nobody", next);
  return next > size ? fmt::format("its last element is {}", size - 1) : "";
}

}  // namespace

Deal deal_of(const ast::Place& place, const Graph& graph, const MeshShape& mesh, const std::vector<AxisId>& axes,
             DimId dim, DiagnosticSink& sink) {
  const ast::Attribute *owns = attribute_of(place, "owns"), *rounds = attribute_of(place, "rounds");
  const int64_t ranks = mesh.size(axes);
  if (rounds && (!owns || !is_text(*owns, "rounds"))) {
    sink.error("E0411", rounds->span, "`rounds` of a dim that is not dealt in rounds")
        .help(R"(write `{ owns: "rounds", rounds: 2 }`, or leave it out)");
    return {};
  }
  if (!owns) return {};
  if (place.target.none || std::ranges::any_of(place.dims, [](const auto& one) { return one.names.size() > 1; })) {
    sink.error("E0411", owns->span, "`owns` of {}", place.target.none ? "a dim that is kept whole" : "a merged dim")
        .here(place.target.none ? "there is nothing to deal" : "parts of a merged dim are blocks")
        .help(place.target.none ? "leave it out" : "write a rule of one dim");
    return {};
  }
  if (is_text(*owns, "block")) return {};
  if (is_text(*owns, "zigzag")) return ranks == 1 ? Deal{} : meshrt::zigzag(ranks);
  if (is_text(*owns, "rounds")) {
    const auto* number = rounds ? ast::as<ast::Number>(*rounds->value) : nullptr;
    if (!number || !number->integer() || number->value < 1) {
      sink.error("E0411", rounds ? rounds->value->span : owns->span, "in how many `rounds` is a whole number from 1")
          .help(R"(write `{ owns: "rounds", rounds: 2 }`)");
      return {};
    }
    constexpr int64_t always = 1024;  // what a smaller dim does with them is soon found
    if (dim && number->value > static_cast<double>(std::max(graph.dim(dim).size, always))) {
      sink.error("E0411", rounds->value->span, "more `rounds` than `{}` has elements", graph.dim(dim).name)
          .label(graph.dim(dim).span, fmt::format("`{}` = {}", graph.dim(dim).name, graph.dim(dim).size))
          .help(R"(write `{ owns: "rounds", rounds: 2 }`)");
      return {};
    }
    const auto count = dim ? static_cast<int64_t>(number->value) : 1;
    return ranks == 1 || count == 1 ? Deal{} : meshrt::rounds(ranks, count);
  }
  const auto* text = ast::as<ast::String>(*owns->value);
  const auto table = text ? table_of(text->value) : std::nullopt;
  if (!table) {
    auto report = sink.error("E0411", owns->value->span, "`owns` says how a dim is dealt to ranks");
    const auto near =
        text ? did_you_mean(text->value, std::vector<std::string>{"block", "rounds", "zigzag"}) : std::nullopt;
    if (near) report.here("did you mean \"{}\"?", *near);
    else report.here(R"(known are "block", "rounds", "zigzag")");
    report.help(R"(or list what each rank owns, as in `{ owns: "0..3, 8..10; 3..8" }`)");
    return {};
  }
  if (ranks == 1 || !dim) return {};
  if (static_cast<int64_t>(table->size()) != ranks) {
    sink.error("E0411", owns->value->span, "a dim is dealt to {} ranks, but `{}` has {}", table->size(),
               place.target.axes.text(), ranks)
        .help("give every rank its ranges, apart by `;`");
    return {};
  }
  if (dim == graph.sample_dim) {
    sink.error("E0411", owns->value->span, "a list of what each rank owns of `{}`, of which a step may have fewer",
               graph.dim(dim).name)
        .here("the last batch of an evaluation, a micro-batch")
        .help(R"(write `{ owns: "zigzag" }` or `{ owns: "rounds", rounds: 2 }`, which hold for any number of samples)");
    return {};
  }
  if (const std::string fault = fault_of(*table, graph.dim(dim).size); !fault.empty()) {
    sink.error("E0411", owns->value->span, "this does not deal each element of `{}` once", graph.dim(dim).name)
        .here("{}", fault)
        .label(graph.dim(dim).span, fmt::format("`{}` = {}", graph.dim(dim).name, graph.dim(dim).size));
    return {};
  }
  return {meshrt::Ownership::table, ranks, 1, *table};
}

bool makes_pipeline(const ast::Place& place) {
  return std::ranges::any_of(pipeline_attributes, [&](const char* key) { return attribute_of(place, key) != nullptr; });
}

bool makes_replicas(const ast::Place& place) { return attribute_of(place, "sync") || attribute_of(place, "outer"); }

}  // namespace mesh
