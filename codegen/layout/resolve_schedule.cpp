#include "codegen/layout/resolve_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "codegen/schedule/checked_file.h"
#include "codegen/schedule/in_flight.h"
#include "codegen/schedule/lower_schedule.h"
#include "codegen/schedule/progress.h"
#include "frontend/suggest.h"

namespace mesh {
namespace {

constexpr const char* built = "schedules of one stage a rank with whole backward passes: `gpipe`, `1f1b`, `eager_1f1b`";

bool has(const PipelineSchedule& schedule, ActionKind kind) {
  return std::ranges::any_of(schedule.ranks, [&](const std::vector<Action>& actions) {
    return std::ranges::find(actions, kind, &Action::kind) != actions.end();
  });
}

/// E0901 for what stages do not know how to do yet.
bool can_be_followed(const PipelineSchedule& schedule, const std::string& name, Span span, DiagnosticSink& sink) {
  const auto refuse = [&](const char* what, const std::string& why) {
    sink.error("E0901", span, "a pipeline {} is not built yet", what).here("{}", why).help(built);
    return false;
  };
  const size_t ranks = schedule.ranks.size(), stages = static_cast<size_t>(schedule.stages);
  if (stages > ranks)
    return refuse("of several chunks a rank", fmt::format("`{}` has {} stages on {} ranks", name, stages, ranks));
  if (has(schedule, ActionKind::weight_gradient))
    return refuse("whose weight gradients have a time of their own", fmt::format("`{}` has W apart from I", name));
  if (has(schedule, ActionKind::recompute)) return refuse("that recomputes", fmt::format("`{}` has R", name));
  return true;
}

class FileOfRule {
 public:
  FileOfRule(const ast::Attribute& schedule, const ScheduleShape& shape, const MeshAxis& axis, SourceMap& sources,
             DiagnosticSink& sink)
      : span_(schedule.value->span), shape_(shape), axis_(axis), sources_(sources), sink_(sink) {}

  std::optional<PipelineSchedule> read(const std::string& name) {
    const std::filesystem::path beside = std::filesystem::path(sources_.name(span_.file)).parent_path();
    std::optional<CheckedSchedule> file = checked_schedule((beside / name).string(), span_, sources_, sink_);
    if (!file) return std::nullopt;
    for (std::vector<Action>& actions : file->schedule.ranks)
      std::erase_if(actions, [](const Action& one) { return !is_computation(one.kind); });
    PipelineSchedule lists = with_whole_backwards(file->schedule);
    if (!fits(lists) || !can_be_followed(lists, name, span_, sink_) || !is_in_order(lists)) return std::nullopt;
    // The stages' messages: sends have a slot for each micro-batch under way, receives begin at their reader.
    const std::vector<Wait> waits = find_deadlock(lists, {ring_of(lists), 0});
    if (waits.empty()) return lists;
    sink_.error("E0423", span_, "the stages would wait for each other for ever")
        .here("{}", describe_deadlock(lists, waits))
        .help("a stage receives right before it computes: let it compute earlier what others wait for");
    return std::nullopt;
  }

 private:
  bool refuse(const std::string& what, const std::string& help) {
    sink_.error("E0423", span_, "a schedule that the stages of this pipeline cannot follow")
        .here("{}", what)
        .label(axis_.span, "the stages")
        .help(help);
    return false;
  }

  bool fits(const PipelineSchedule& lists) {
    const auto ranks = static_cast<int32_t>(lists.ranks.size());
    if (ranks != shape_.ranks)
      return refuse(fmt::format("it is of {} ranks, `{}` has {}", ranks, axis_.name, shape_.ranks),
                    fmt::format("`--mesh {}={}` would do", axis_.name, ranks));
    if (lists.micro_batches != shape_.micro_batches)
      return refuse(fmt::format("it is of {} micro-batches, not {}", lists.micro_batches, shape_.micro_batches),
                    fmt::format("`microbatches: {}` would do", lists.micro_batches));
    const std::vector<int> homes = lists.rank_of_stage();
    for (int32_t stage = 0; stage < ranks && lists.stages == ranks; ++stage)
      if (homes[static_cast<size_t>(stage)] != stage)
        return refuse(fmt::format("stage {} lies on rank {}", stage, homes[static_cast<size_t>(stage)]),
                      "stages lie along the axis in their order: exchange lines of the file");
    return true;
  }

  /// Messages between two stages keep their order.
  bool is_in_order(const PipelineSchedule& lists) {
    const auto taken = [&](int32_t stage, ActionKind kind) {
      std::vector<int32_t> order;
      for (const Action& one : lists.ranks[static_cast<size_t>(stage)])
        if (one.kind == kind) order.push_back(one.micro_batch);
      return order;
    };
    for (int32_t stage = 0; stage + 1 < lists.stages; ++stage)
      for (const ActionKind kind : {ActionKind::forward, ActionKind::backward}) {
        const std::vector<int32_t> here = taken(stage, kind), next = taken(stage + 1, kind);
        const auto [a, b] = std::ranges::mismatch(here, next);
        if (a == here.end()) continue;
        return refuse(fmt::format("stage {} makes {} where stage {} makes {}", stage, to_text({kind, stage, *a}),
                                  stage + 1, to_text({kind, stage + 1, *b})),
                      "all stages take the micro-batches in the same order in F, and in the same order in B");
      }
    return true;
  }

  const Span span_;
  const ScheduleShape shape_;
  const MeshAxis& axis_;
  SourceMap& sources_;
  DiagnosticSink& sink_;
};

const NamedSchedule* named(const ast::Attribute& schedule, DiagnosticSink& sink) {
  const auto* text = ast::as<ast::String>(*schedule.value);
  if (const NamedSchedule* known = text ? find_schedule(text->value) : nullptr) return known;
  std::vector<std::string> names;
  for (const NamedSchedule& one : named_schedules()) names.emplace_back(one.name);
  auto report = sink.error("E0411", schedule.value->span, "no schedule is called so");
  const auto near = text ? did_you_mean(text->value, names) : std::nullopt;
  if (near) report.here("did you mean \"{}\"?", *near);
  else report.here("known are \"{}\"", fmt::join(names, "\", \""));
  report.help("`meshc schedule --compare` shows what they take; a file is written as \"mine.csv\"");
  return nullptr;
}

}  // namespace

bool resolve_schedule(const ast::Attribute& schedule, const ScheduleShape& shape, const MeshAxis* axis,
                      SourceMap& sources, Pipeline& made, DiagnosticSink& sink) {
  if (const auto* text = ast::as<ast::String>(*schedule.value); text && text->value.ends_with(".csv")) {
    made.schedule = text->value;
    if (axis == nullptr) return true;
    std::optional<PipelineSchedule> lists = FileOfRule(schedule, shape, *axis, sources, sink).read(text->value);
    if (lists) made.lists = std::move(*lists);
    return lists.has_value();
  }
  const NamedSchedule* known = named(schedule, sink);
  if (known == nullptr) return false;
  made.schedule = known->name;
  if (!can_be_followed(known->make({2, 2, known->chunks}), made.schedule, schedule.value->span, sink)) return false;
  made.lists = known->make({shape.ranks, shape.micro_batches, known->chunks});
  return true;
}

}  // namespace mesh
