#include "codegen/layout/resolve_pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>

#include "codegen/layout/cut.h"
#include "codegen/layout/resolve_attributes.h"
#include "codegen/layout/resolve_schedule.h"
#include "codegen/schedule/lower_schedule.h"
#include "codegen/schedule/partition.h"

namespace mesh {
namespace {

class PipelineRule {
 public:
  PipelineRule(const ast::Place& place, Span rule, const Graph& graph, SourceMap& sources, Layout& layout,
               DiagnosticSink& sink)
      : place_(place), rule_(rule), graph_(graph), sources_(sources), layout_(layout), sink_(sink) {}

  void resolve(const std::set<DimId>& loops, const std::vector<AxisId>& axes) {
    const ast::Attribute *count = attribute_of(place_, "microbatches"), *schedule = attribute_of(place_, "schedule"),
                         *cut = attribute_of(place_, "cut"), *chunks = attribute_of(place_, "chunks");
    if (!count) {
      const ast::Attribute& other = schedule ? *schedule : cut ? *cut : *chunks;
      sink_.error("E0411", other.span, "`{}` without `microbatches`", other.key.text)
          .here("a pipeline goes through the parts of a batch")
          .help("say how many there are, as in `{ microbatches: 8, schedule: \"1f1b\" }`");
      return;
    }
    Pipeline made;
    made.span = rule_;
    if (!is_alone(*count) || !is_a_loop(loops, made.dim) || !has_batch(*count, made.micro_batches)) return;
    layout_.accumulate = made.micro_batches;
    layout_.accumulate_span = count->span;
    const MeshAxis* axis = nullptr;
    if (!axes.empty()) axis = &layout_.mesh.axes[made.axis = axes.front()];
    const ScheduleShape shape{static_cast<int32_t>(axis ? axis->size : 1), static_cast<int32_t>(made.micro_batches)};
    if (!resolve_schedule(schedule, chunks, shape, axis, sources_, made, sink_) || !has_remat(made)) return;
    if (axis && !has_layers(made)) return;
    if (axis) set_cut(made, even_cut(static_cast<int32_t>(graph_.dim(made.dim).size), made.lists.stages));
    if (cut && !has_cut(*cut, axis ? made.lists.stages : 1, made)) return;
    if (axis == nullptr) return;
    layout_.pipeline = std::move(made);
  }

 private:
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
    if (const ast::Attribute* owns = attribute_of(place_, "owns")) {
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

  /// Of whole stages; what else `remat` says, resolve_attributes.h takes.
  bool has_remat(Pipeline& made) {
    const ast::Attribute* remat = attribute_of(place_, "remat");
    const auto* text = remat ? ast::as<ast::String>(*remat->value) : nullptr;
    const bool of_file = made.recomputes();
    if (of_file) made.remat = Remat::stage;
    if (!text || (text->value != "stage" && text->value != "except_last")) return true;
    if (of_file) {
      sink_.error("E0411", remat->value->span, "`{}` says itself what is computed again", made.schedule)
          .here("its R")
          .help("leave out `remat`, or R in the file");
      return false;
    }
    made.remat = text->value == "stage" ? Remat::stage : Remat::except_last;
    made.lists = with_recompute(std::move(made.lists), made.remat);
    return true;
  }

  bool has_layers(const Pipeline& made) {
    const MeshAxis& axis = layout_.mesh.axes[made.axis];
    const Dim& layers = graph_.dim(made.dim);
    const int64_t stages = made.lists.stages, chunks = stages / axis.size;
    if (stages <= layers.size) return true;
    const NamedSchedule* known = find_schedule(made.schedule);
    std::string cure = fmt::format("`--mesh {}={}`", axis.name, std::max<int64_t>(1, layers.size / chunks));
    if (known && known->other_chunks && layers.size >= axis.size)
      cure = fmt::format("`chunks: {}`", layers.size / axis.size);
    else if (chunks > 1 && layers.size >= axis.size) cure = "`schedule: \"1f1b\"`, which has one stage a rank,";
    sink_.error("E0420", rule_, "{} stages, but `{}` has {} turns", stages, layers.name, layers.size)
        .here("a stage has one turn at least")
        .label(axis.span, chunks == 1 ? "the stages" : fmt::format("each has {} stages", chunks))
        .label(layers.span, "the turns")
        .help(cure + " would do");
    return false;
  }

  bool has_cut(const ast::Attribute& cut, int32_t stages, Pipeline& made) {
    made.cut_span = cut.value->span;
    const Dim& layers = graph_.dim(made.dim);
    const auto* text = ast::as<ast::String>(*cut.value);
    if (text && text->value == "even") return true;
    if (text && text->value == "auto") return made.cut_by_time = true;
    const std::optional<std::vector<int32_t>> sizes = sizes_of(cut, layers.size);
    if (!sizes) {
      sink_.error("E0411", cut.value->span, "`cut` says how many turns each stage has")
          .here("must be \"even\", \"auto\", or whole numbers from 1 to `{}` = {}", layers.name, layers.size)
          .help(fmt::format("write `cut: \"auto\"`, or a number for each stage, as in `cut: {}`",
                            cut_text(even_cut(static_cast<int32_t>(layers.size), stages))));
      return false;
    }
    if (stages == 1) return true;  // `--mesh pipe=1`: all turns are its
    const Partitioned found = cut_by_hand(untimed(static_cast<int32_t>(layers.size), stages), *sizes);
    if (const auto* mistake = std::get_if<PartitionMistake>(&found)) {
      sink_
          .error("E0421", cut.value->span, "`{}` = {} is not cut into {} stage{}", layers.name, layers.size, stages,
                 stages == 1 ? "" : "s")
          .here("{}", mistake->message)
          .label(layers.span, "the turns")
          .help(mistake->help);
      return false;
    }
    set_cut(made, *sizes);
    return true;
  }

  /// "(8, 9, 8, 7)"; nothing for what is no such list.
  static std::optional<std::vector<int32_t>> sizes_of(const ast::Attribute& cut, int64_t most) {
    const auto* list = ast::as<ast::Group>(*cut.value);
    if (!list) return std::nullopt;
    std::vector<int32_t> sizes;
    for (const ast::ExprPtr& one : list->values) {
      const auto* number = ast::as<ast::Number>(*one);
      if (!number || !number->integer() || number->value < 1 || number->value > static_cast<double>(most))
        return std::nullopt;
      sizes.push_back(static_cast<int32_t>(number->value));
    }
    return sizes;
  }

  /// Of which nothing is known but how many there are.
  static PipelineModel untimed(int32_t layers, int32_t stages) {
    PipelineModel model{std::vector<PipelineLayer>(static_cast<size_t>(layers)), {}, {}, {}, {}, {}};
    for (int32_t stage = 0; stage < stages; ++stage) model.rank_of_stage.push_back(stage);
    model.in_flight.resize(static_cast<size_t>(stages));
    return model;
  }

  const ast::Place& place_;
  const Span rule_;
  const Graph& graph_;
  SourceMap& sources_;
  Layout& layout_;
  DiagnosticSink& sink_;
};

}  // namespace

void resolve_pipeline(const ast::Place& place, Span rule, const Graph& graph, const std::set<DimId>& loops,
                      const std::vector<AxisId>& axes, SourceMap& sources, Layout& layout, DiagnosticSink& sink) {
  PipelineRule(place, rule, graph, sources, layout, sink).resolve(loops, axes);
}

}  // namespace mesh
