#include "codegen/layout/resolve_pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>

#include "codegen/layout/cut.h"
#include "codegen/layout/resolve_attributes.h"
#include "codegen/layout/resolve_own.h"
#include "codegen/layout/resolve_schedule.h"
#include "codegen/schedule/lower_schedule.h"
#include "codegen/schedule/partition.h"
#include "meshrt/collectives.h"

namespace mesh {
namespace {

class PipelineRule {
 public:
  PipelineRule(const ast::Place& place, Span rule, const Graph& graph, SourceMap& sources, Layout& layout,
               DiagnosticSink& sink)
      : place_(place), rule_(rule), graph_(graph), sources_(sources), layout_(layout), sink_(sink) {}

  void resolve(const std::set<DimId>& loops, const std::vector<AxisId>& axes) {
    const ast::Attribute *count = attribute_of(place_, "microbatches"), *cut = attribute_of(place_, "cut"),
                         *own = attribute_of(place_, "own"), *buffers = attribute_of(place_, "buffers");
    if (!count) {
      const auto other = std::ranges::find_if(pipeline_attributes,
                                              [&](const char* key) { return attribute_of(place_, key) != nullptr; });
      sink_.error("E0411", attribute_of(place_, *other)->span, "`{}` without `microbatches`", *other)
          .here("a pipeline goes through the parts of a batch")
          .help("say how many there are, as in `{ microbatches: 8, schedule: \"1f1b\" }`");
      return;
    }
    Pipeline made;
    made.span = rule_;
    if (!is_alone(*count) || !has_loops(loops, made) || !has_batch(*count, made.micro_batches)) return;
    layout_.accumulate = made.micro_batches;
    layout_.accumulate_span = count->span;
    const MeshAxis* axis = nullptr;
    if (!axes.empty()) axis = &layout_.mesh.axes[made.axis = axes.front()];
    const ScheduleShape shape{static_cast<int32_t>(axis ? axis->size : 1), static_cast<int32_t>(made.micro_batches)};
    if (!layout_.other_schedule.empty()) made.schedule = layout_.other_schedule;
    if (!resolve_schedule(schedule(), shape, axis, sources_, made, sink_) || !has_remat(made)) return;
    if ((own && !resolve_own(*own, graph_, made, sink_)) || (buffers && !has_buffers(*buffers, made))) return;
    if (axis && cut && !agrees(*cut, made)) return;
    if (cut && is_of_other_stages(*cut, made)) cut = nullptr;
    if (axis && !has_layers(made)) return;
    if (axis && buffers && !is_enough(*buffers, made)) return;
    if (axis) set_cut(made, even(made));
    if (cut && !has_cut(*cut, axis ? made.lists.stages : 1, made)) return;
    if (axis == nullptr || (cut && !has_whole_groups(*cut, made))) return;
    layout_.pipeline = std::move(made);
  }

 private:
  /// What the rule says of it, or, under another schedule, of its backward passes where that has whole ones.
  ScheduleOfRule schedule() const {
    ScheduleOfRule said{attribute_of(place_, "schedule"), attribute_of(place_, "chunks"),
                        attribute_of(place_, "backward")};
    if (layout_.other_schedule.empty()) return said;
    const auto* backward = said.backward ? ast::as<ast::String>(*said.backward->value) : nullptr;
    return {nullptr, nullptr, backward && backward->value == "split" ? said.backward : nullptr};
  }

  /// Of a cut by hand under another schedule.
  bool is_of_other_stages(const ast::Attribute& cut, const Pipeline& made) const {
    const auto sizes = layout_.other_schedule.empty() ? std::nullopt : sizes_of(cut, made.turns());
    return sizes && static_cast<int32_t>(sizes->size()) != made.lists.stages;
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
    if (const ast::Attribute* owns = attribute_of(place_, "owns")) {
      sink_.error("E0411", owns->span, "`owns` of a pipeline")
          .here("a stage has consecutive layers")
          .help("leave it out");
      return false;
    }
    return true;
  }

  /// One loop of the model for each dim, in the order in which they stand there.
  bool has_loops(const std::set<DimId>& loops, Pipeline& made) {
    const bool plain = !place_.target.none && place_.target.axes.names.size() == 1 &&
                       std::ranges::all_of(place_.dims, [](const ast::Product& one) { return one.names.size() == 1; });
    if (!plain) return makes_none("a pipeline is the turns of loops over one axis");
    std::set<DimId> wanted;
    for (const ast::Product& one : place_.dims) {
      const auto found = std::ranges::find(loops, one.text(), [&](DimId loop) { return graph_.dim(loop).name; });
      if (found == loops.end()) return makes_none(fmt::format("no `repeat` of the model runs over `{}`", one.text()));
      wanted.insert(*found);
    }
    for (const NodeId id : graph_.body(graph_.root()).nodes)
      if (const auto* loop = std::get_if<LoopOp>(&graph_.node(id).op); loop && wanted.erase(loop->dim) > 0)
        made.loops.push_back({loop->dim, static_cast<int32_t>(graph_.dim(loop->dim).size), {}});
    if (wanted.empty()) return true;
    return makes_none(fmt::format("`repeat {}` stands within another loop", graph_.dim(*wanted.begin()).name));
  }

  bool makes_none(const std::string& why) {
    sink_.error("E0411", rule_, "`microbatches` of a rule that makes no pipeline")
        .here("{}", why)
        .help("write it with the dim of a `repeat`, as in `layer -> pipe { microbatches: 8 }`");
    return false;
  }

  bool has_batch(const ast::Attribute& count, int64_t& micro_batches) {
    const auto* number = ast::as<ast::Number>(*count.value);
    constexpr double most = 1e9;  // far above any batch
    if (!number || !number->integer() || number->value < 1 || number->value > most) {
      sink_.error("E0411", count.value->span, "`microbatches` is the number of parts into which a batch is cut")
          .here("must be a whole number from 1 to {:.0f}", most);
      return false;
    }
    if (!graph_.sample_dim) {
      sink_.error("E0411", count.span, "the model has no samples that `microbatches` could cut")
          .note("it has no `minimize`, so its inputs have no dim of samples");
      return false;
    }
    micro_batches = static_cast<int64_t>(number->value);
    const Dim& batch = graph_.dim(graph_.sample_dim);
    if (batch.size % micro_batches == 0 || graph_.generation) return true;  // what writes texts takes them as one batch
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

  bool has_buffers(const ast::Attribute& buffers, Pipeline& made) {
    const auto* number = ast::as<ast::Number>(*buffers.value);
    if (!number || !number->integer() || number->value < 1) {
      sink_.error("E0411", buffers.value->span, "`buffers` is the number of messages that may wait at a stage")
          .here("must be a whole number from 1")
          .help("write `buffers: 2`, or leave it out: there are as many then as the schedule needs");
      return false;
    }
    made.waiting = static_cast<int32_t>(std::min(number->value, static_cast<double>(made.micro_batches)));
    return true;
  }

  /// E0423 where stages would wait for each other for ever.
  bool is_enough(const ast::Attribute& buffers, const Pipeline& made) {
    const std::vector<Wait> waits = waits_for_room(made.lists, *made.waiting);
    if (waits.empty()) return true;
    const ast::Attribute* schedule = attribute_of(place_, "schedule");
    auto report =
        sink_.error("E0423", buffers.value->span, "with so few buffers the stages wait for each other for ever");
    report.here("{} may wait at a stage", *made.waiting);
    if (schedule) report.label(schedule->value->span, "the order of what they do");
    report.note("{}", describe_deadlock(made.lists, waits))
        .help(fmt::format("`buffers: {}` is the least that is enough; where nothing is said there are as many as the "
                          "schedule needs",
                          least_waiting(made.lists, *made.waiting)));
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
    const int64_t stages = made.lists.stages, chunks = stages / axis.size, group = group_of(made),
                  turns = made.turns() / group;  // or groups, which lie at one stage each
    const int64_t alone = (made.first_alone ? 1 : 0) + (made.last_alone ? 1 : 0);
    if (stages <= alone) return leaves_turns_a_stage(made);
    if (stages - alone <= turns) return true;
    const NamedSchedule* known = find_schedule(made.schedule);
    std::string cure = fmt::format("`--mesh {}={}`", axis.name, std::max<int64_t>(1, (turns + alone) / chunks));
    if (known && known->other_chunks && turns + alone >= axis.size)
      cure = fmt::format("`chunks: {}`", (turns + alone) / axis.size);
    else if (chunks > 1 && turns >= axis.size) cure = "`schedule: \"1f1b\"`, which has one stage a rank,";
    auto report = sink_.error("E0420", rule_, "{} stages, but {} {} {} {}", stages, names_of_loops(graph_, made),
                              made.loops.size() == 1 ? "has" : "have", turns,
                              group == 1 ? "turns" : fmt::format("groups of {} turns", group));
    report
        .here("a stage has one {} at least{}", group == 1 ? "turn" : "group",
              alone > 0 ? ", but for those that `own` names" : "")
        .label(axis.span, chunks == 1 ? "the stages" : fmt::format("each has {} stages", chunks))
        .help(cure + " would do");
    for (const PipelineLoop& loop : made.loops) report.label(graph_.dim(loop.dim).span, "the turns");
    return false;
  }

  /// "3, 2, 2"
  static std::string even_turns(int64_t turns, int64_t stages) {
    std::string text;
    for (int64_t stage = 0; stage < stages; ++stage)
      text += fmt::format("{}{}", stage == 0 ? "" : ", ",
                          meshrt::part_begin(turns, stage + 1, stages) - meshrt::part_begin(turns, stage, stages));
    return text;
  }

  /// E0420: each stage is `own`.
  bool leaves_turns_a_stage(const Pipeline& made) {
    const MeshAxis& axis = layout_.mesh.axes[made.axis];
    const ast::Attribute *own = attribute_of(place_, "own"), *said = own ? own : attribute_of(place_, "cut");
    const bool both = made.first_alone && made.last_alone;
    sink_.error("E0420", said->value->span, "no stage is left for the turns of {}", names_of_loops(graph_, made))
        .here(both ? "takes the first and the last stage" : "takes one stage")
        .label(axis.span, "the stages")
        .help(own ? fmt::format("`--mesh {}={}` would do", axis.name, both ? 3 : 2)
                  : fmt::format("give stages turns: `cut: ({})` would do", even_turns(made.turns(), axis.size)));
    return false;
  }

  /// "`layer` = 8", "`enc` + `dec` = 8"
  std::string row_text(const Pipeline& made) const {
    std::string text;
    for (const PipelineLoop& loop : made.loops)
      text += fmt::format("{}`{}`", text.empty() ? "" : " + ", graph_.dim(loop.dim).name);
    return fmt::format("{} = {}", text, made.turns());
  }

  bool has_cut(const ast::Attribute& cut, int32_t stages, Pipeline& made) {
    made.cut_span = cut.value->span;
    const auto* text = ast::as<ast::String>(*cut.value);
    if (text && text->value == "even") return true;
    if (text && text->value == "auto") return made.cut_by_time = true;
    const std::optional<std::vector<int32_t>> sizes = sizes_of(cut, made.turns());
    if (!sizes) {
      sink_.error("E0411", cut.value->span, "`cut` says how many turns each stage has")
          .here("must be \"even\", \"auto\", or whole numbers that together are {}", row_text(made))
          .help(fmt::format("write `cut: \"auto\"`, or a number for each stage, as in `cut: {}`",
                            cut_text(even_cut(made.turns(), stages, made.first_alone, made.last_alone))));
      return false;
    }
    if (stages == 1) return true;  // `--mesh pipe=1`: all turns are its
    const Partitioned found = cut_by_hand(untimed(made, stages), *sizes);
    if (const auto* mistake = std::get_if<PartitionMistake>(&found)) {
      auto report = sink_.error("E0421", cut.value->span, "{} is not cut into {} stage{}", row_text(made), stages,
                                stages == 1 ? "" : "s");
      report.here("{}", mistake->message).help(mistake->help);
      for (const PipelineLoop& loop : made.loops) report.label(graph_.dim(loop.dim).span, "the turns");
      return false;
    }
    set_cut(made, *sizes);
    return true;
  }

  /// The turns that are computed again together.
  int32_t group_of(const Pipeline& made) const {
    const auto groups = layout_.remat.loops.find(made.loops.front().dim);
    return groups == layout_.remat.loops.end() ? 1 : static_cast<int32_t>(groups->second);
  }

  /// Of whole groups.
  std::vector<int32_t> even(const Pipeline& made) const {
    const int32_t group = group_of(made);
    std::vector<int32_t> cut = even_cut(made.turns() / group, made.lists.stages, made.first_alone, made.last_alone);
    for (int32_t& turns : cut) turns *= group;
    return cut;
  }

  /// Groups of turns that are computed again together lie at one stage each.
  bool has_whole_groups(const ast::Attribute& cut, const Pipeline& made) {
    const int32_t group = group_of(made);
    if (std::ranges::all_of(made.cut, [&](int32_t turns) { return turns % group == 0; })) return true;
    sink_.error("E0421", cut.value->span, "groups of {} turns are cut apart, which are computed again together", group)
        .label(attribute_of(place_, "remat")->value->span, "makes the groups")
        .help(fmt::format("`cut: {}` has whole ones, as `\"even\"` and `\"auto\"` have; `remat: \"layer\"` and "
                          "`\"stage\"` stand with any cut",
                          cut_text(even(made))));
    return false;
  }

  /// A stage without turns at an end is said by `own`, or by the cut, or by both.
  bool agrees(const ast::Attribute& cut, Pipeline& made) {
    const std::optional<std::vector<int32_t>> read = sizes_of(cut, made.turns());
    if (!read || read->empty()) return true;
    const std::vector<int32_t>& sizes = *read;
    const ast::Attribute* own = attribute_of(place_, "own");
    const bool first = sizes.front() == 0, last = sizes.size() > 1 && sizes.back() == 0;
    if (own && (first != made.first_alone || last != made.last_alone)) {
      sink_.error("E0421", cut.value->span, "`own` and `cut` differ in which stages have no turns")
          .here("{} has none here", first && last ? "the first and the last one"
                                    : first       ? "the first one"
                                    : last        ? "the last one"
                                                  : "no stage")
          .label(own->span, made.first_alone && made.last_alone ? "the first and the last one"
                            : made.first_alone                  ? "the first one"
                                                                : "the last one")
          .help("leave one of them out");
      return false;
    }
    made.first_alone = first;
    made.last_alone = last;
    return true;
  }

  /// "(8, 9, 8, 7)"; nothing for what is no such list.
  static std::optional<std::vector<int32_t>> sizes_of(const ast::Attribute& cut, int64_t most) {
    const auto* list = ast::as<ast::Group>(*cut.value);
    if (!list) return std::nullopt;
    std::vector<int32_t> sizes;
    for (const ast::ExprPtr& one : list->values) {
      const auto* number = ast::as<ast::Number>(*one);
      if (!number || !number->integer() || number->value > static_cast<double>(most)) return std::nullopt;
      sizes.push_back(static_cast<int32_t>(number->value));
    }
    return sizes;
  }

  /// Of which nothing is known but how many there are.
  static PipelineModel untimed(const Pipeline& made, int32_t stages) {
    PipelineModel model;
    model.layers.resize(static_cast<size_t>(made.turns()));
    model.first_alone = made.first_alone;
    model.last_alone = made.last_alone;
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
