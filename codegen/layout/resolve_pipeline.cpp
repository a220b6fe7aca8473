#include "codegen/layout/resolve_pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "codegen/schedule/named_schedules.h"
#include "frontend/suggest.h"

namespace mesh {
namespace {

class PipelineRule {
 public:
  PipelineRule(const ast::Place& place, Span rule, const Graph& graph, Layout& layout, DiagnosticSink& sink)
      : place_(place), rule_(rule), graph_(graph), layout_(layout), sink_(sink) {}

  void resolve(const std::set<DimId>& loops, const std::vector<AxisId>& axes) {
    const ast::Attribute *count = attribute("microbatches"), *schedule = attribute("schedule");
    if (!count) {
      sink_.error("E0411", schedule->span, "`schedule` without `microbatches`")
          .here("a pipeline goes through the parts of a batch")
          .help("say how many there are, as in `{ microbatches: 8, schedule: \"1f1b\" }`");
      return;
    }
    Pipeline made;
    made.span = rule_;
    if (!is_alone(*count) || !is_a_loop(loops, made.dim) || !has_batch(*count, made.micro_batches) ||
        (schedule && !has_name(*schedule, made.schedule)))
      return;
    layout_.accumulate = made.micro_batches;
    layout_.accumulate_span = count->span;
    if (axes.empty()) return;
    made.axis = axes.front();
    if (has_layers(made)) layout_.pipeline = made;
  }

 private:
  const ast::Attribute* attribute(std::string_view key) const {
    for (const ast::Attribute& one : place_.attributes)
      if (one.key.text == key) return &one;
    return nullptr;
  }

  bool is_alone(const ast::Attribute& count) {
    if (layout_.pipeline) {
      sink_.error("E0411", rule_, "a layout has one pipeline").label(layout_.pipeline.span, "the first");
      return false;
    }
    if (layout_.accumulate_span.known()) {
      sink_.error("E0411", count.span, "`microbatches` beside `accumulate`")
          .here("both cut the batch")
          .label(layout_.accumulate_span, "the first")
          .help("leave out `accumulate`: a pipeline adds up the gradients of its micro-batches");
      return false;
    }
    if (const ast::Attribute* owns = attribute("owns")) {
      sink_.error("E0411", owns->span, "`owns` of a pipeline")
          .here("a stage has consecutive layers")
          .help("leave it out");
      return false;
    }
    return true;
  }

  bool is_a_loop(const std::set<DimId>& loops, DimId& dim) {
    const bool one = place_.dims.size() == 1 && place_.dims[0].names.size() == 1 && !place_.target.none &&
                     place_.target.axes.names.size() == 1;
    for (const DimId loop : loops)
      if (one && graph_.dim(loop).name == place_.dims[0].text()) dim = loop;
    if (dim) return true;
    auto report = sink_.error("E0411", rule_, "`microbatches` of a rule that makes no pipeline");
    if (one) report.here("no `repeat` of the model runs over `{}`", place_.dims[0].text());
    else report.here("a pipeline is the turns of one loop over one axis");
    report.help("write it with the dim of a `repeat`, as in `layer -> pipe { microbatches: 8 }`");
    return false;
  }

  bool has_batch(const ast::Attribute& count, int64_t& micro_batches) {
    const auto* number = ast::as<ast::Number>(*count.value);
    if (!number || !number->integer() || number->value < 1) {
      sink_.error("E0411", count.value->span, "`microbatches` is the number of parts into which a batch is cut")
          .here("must be a whole number from 1");
      return false;
    }
    if (!graph_.sample_dim) {
      sink_.error("E0411", count.span, "the model has no samples that `microbatches` could cut")
          .note("it has no `minimize`, so its inputs have no dim of samples");
      return false;
    }
    constexpr double most = 1e9;  // far above any batch
    micro_batches = static_cast<int64_t>(std::min(number->value, most));
    const Dim& batch = graph_.dim(graph_.sample_dim);
    if (batch.size % micro_batches == 0) return true;
    int64_t less = std::min(batch.size, micro_batches), more = micro_batches;
    while (batch.size % less != 0) --less;
    while (more < batch.size && batch.size % more != 0) ++more;
    const std::string near = more > batch.size || more == less ? fmt::format("`microbatches: {}`", less)
                                                               : fmt::format("`microbatches: {}` or `{}`", less, more);
    sink_
        .error("E0412", count.value->span, "{} micro-batches do not divide `{}` = {}", micro_batches, batch.name,
               batch.size)
        .label(batch.span, "the batch of one step")
        .help(fmt::format("{} would do", near));
    return false;
  }

  bool has_name(const ast::Attribute& schedule, std::string& name) {
    const auto* text = ast::as<ast::String>(*schedule.value);
    const NamedSchedule* known = text ? find_schedule(text->value) : nullptr;
    if (!known) {
      std::vector<std::string> names;
      for (const NamedSchedule& one : named_schedules()) names.emplace_back(one.name);
      auto report = sink_.error("E0411", schedule.value->span, "no schedule is called so");
      const auto near = text ? did_you_mean(text->value, names) : std::nullopt;
      if (near) report.here("did you mean \"{}\"?", *near);
      else report.here("known are \"{}\"", fmt::join(names, "\", \""));
      report.help("`meshc schedule --compare` shows what they take");
      return false;
    }
    if (known->chunks > 1) {
      sink_.error("E0901", schedule.value->span, "a pipeline of several chunks a rank is not built yet")
          .here("`{}` has {} a rank", known->name, known->chunks)
          .help("schedules of one stage a rank: `gpipe`, `1f1b`, `eager_1f1b`");
      return false;
    }
    const PipelineSchedule lists = known->make({2, 2, 1});
    const bool halves = std::ranges::any_of(lists.ranks, [](const std::vector<Action>& actions) {
      return std::ranges::any_of(actions, [](const Action& one) { return one.kind == ActionKind::weight_gradient; });
    });
    if (halves) {
      sink_
          .error("E0901", schedule.value->span,
                 "a pipeline whose weight gradients have a time of their own is not built yet")
          .here("`{}` puts them into the bubble", known->name)
          .help("schedules with whole backward passes: `gpipe`, `1f1b`, `eager_1f1b`");
      return false;
    }
    name = known->name;
    return true;
  }

  bool has_layers(const Pipeline& made) {
    const MeshAxis& axis = layout_.mesh.axes[made.axis];
    const Dim& layers = graph_.dim(made.dim);
    if (axis.size <= layers.size) return true;
    sink_.error("E0420", rule_, "{} stages, but `{}` has {} turns", axis.size, layers.name, layers.size)
        .here("a stage has one turn at least")
        .label(axis.span, "the stages")
        .label(layers.span, "the turns")
        .help(fmt::format("`--mesh {}={}` would do", axis.name, layers.size));
    return false;
  }

  const ast::Place& place_;
  const Span rule_;
  const Graph& graph_;
  Layout& layout_;
  DiagnosticSink& sink_;
};

}  // namespace

void resolve_pipeline(const ast::Place& place, Span rule, const Graph& graph, const std::set<DimId>& loops,
                      const std::vector<AxisId>& axes, Layout& layout, DiagnosticSink& sink) {
  PipelineRule(place, rule, graph, layout, sink).resolve(loops, axes);
}

}  // namespace mesh
