#include "codegen/layout/resolve_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "codegen/schedule/checked_file.h"
#include "codegen/schedule/lower_schedule.h"
#include "frontend/suggest.h"

namespace mesh {
namespace {

/// Of `chunks: 2`.
std::optional<int32_t> number_of(const ast::Attribute& chunks, DiagnosticSink& sink) {
  const auto* number = ast::as<ast::Number>(*chunks.value);
  constexpr double most = 1 << 20;
  if (number && number->integer() && number->value >= 1 && number->value <= most)
    return static_cast<int32_t>(number->value);
  sink.error("E0411", chunks.value->span, "`chunks` is the number of stages that each rank has")
      .here("must be a whole number from 1 to {:.0f}", most)
      .help("write `chunks: 2`");
  return std::nullopt;
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
    if (!fits(lists) || !is_in_order(lists)) return std::nullopt;
    return lists;
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
    bool in_turn = lists.stages % ranks == 0, in_a_v = lists.stages == 2 * ranks;
    for (int32_t stage = 0; stage < lists.stages; ++stage) {
      const int home = homes[static_cast<size_t>(stage)];
      in_turn = in_turn && home == stage % ranks;
      in_a_v = in_a_v && home == (stage < ranks ? stage : 2 * ranks - 1 - stage);
    }
    if (in_turn || in_a_v) return true;
    return refuse(fmt::format("its stages lie on the ranks {}", fmt::join(homes, ", ")),
                  "stages lie along the axis in turn, 0, 1, 0, 1, or two a rank in a V, 0, 1, 1, 0: exchange lines of "
                  "the file");
  }

  /// Messages between two stages keep their order.
  bool is_in_order(const PipelineSchedule& lists) {
    const std::vector<int> homes = lists.rank_of_stage();
    const auto taken = [&](int32_t stage, bool forward) {
      std::vector<Action> order;
      for (const Action& one : lists.ranks[static_cast<size_t>(homes[static_cast<size_t>(stage)])])
        if (one.stage == stage && (forward ? one.kind == ActionKind::forward : gives_gradient(one.kind)))
          order.push_back(one);
      return order;
    };
    for (int32_t stage = 0; stage + 1 < lists.stages; ++stage)
      for (const bool forward : {true, false}) {
        const std::vector<Action> here = taken(stage, forward), next = taken(stage + 1, forward);
        const auto [a, b] = std::ranges::mismatch(here, next, {}, &Action::micro_batch, &Action::micro_batch);
        if (a == here.end()) continue;
        return refuse(
            fmt::format("stage {} makes {} where stage {} makes {}", stage, to_text(*a), stage + 1, to_text(*b)),
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

/// Of `backward: "split"`.
bool has_backward(const ast::Attribute& backward, Pipeline& made, DiagnosticSink& sink) {
  const auto* text = ast::as<ast::String>(*backward.value);
  const std::string_view said = text ? std::string_view(text->value) : "";
  made.split_backward = said == "split";
  if (said == "split" || said == "whole") return true;
  sink.error("E0411", backward.value->span, "`backward` says whether a backward pass is made in its two halves")
      .here(R"(must be "whole" or "split")")
      .help(
          R"(with `backward: "split"` a stage sends the gradient of what came into it before it computes its weights')");
  return false;
}

bool has_lists(const ScheduleOfRule& rule, ScheduleShape shape, const MeshAxis* axis, SourceMap& sources,
               Pipeline& made, DiagnosticSink& sink) {
  const ast::Attribute *schedule = rule.schedule, *chunks = rule.chunks;
  const std::optional<int32_t> asked = chunks ? number_of(*chunks, sink) : std::nullopt;
  if (chunks && !asked) return false;
  const auto* text = schedule ? ast::as<ast::String>(*schedule->value) : nullptr;
  if (text && text->value.ends_with(".csv")) {
    made.schedule = text->value;
    if (axis == nullptr) return true;
    std::optional<PipelineSchedule> lists = FileOfRule(*schedule, shape, *axis, sources, sink).read(text->value);
    if (!lists) return false;
    const int32_t has = lists->stages / shape.ranks;
    made.lists = std::move(*lists);
    if (!asked || *asked == has) return true;
    sink.error("E0411", chunks->value->span, "`{}` has {} stage{} a rank", text->value, has, has == 1 ? "" : "s")
        .help(fmt::format("write `chunks: {}`, or leave it out", has));
    return false;
  }
  const NamedSchedule* known =
      schedule ? named(*schedule, sink) : find_schedule(asked.value_or(1) > 1 ? "interleaved" : made.schedule);
  if (known == nullptr) return false;
  made.schedule = known->name;
  shape.chunks = asked.value_or(known->chunks);
  if (shape.chunks != known->chunks && !known->other_chunks) {
    sink.error("E0411", chunks->value->span, "schedule `{}` has {} stage{} a rank", known->name, known->chunks,
               known->chunks == 1 ? "" : "s")
        .help(
            R"(take `schedule: "interleaved"`, "looped_bfs" or "circular", which have as many as you say, or leave `chunks` out)");
    return false;
  }
  made.lists = known->make(shape);
  return true;
}

}  // namespace

bool resolve_schedule(const ScheduleOfRule& rule, ScheduleShape shape, const MeshAxis* axis, SourceMap& sources,
                      Pipeline& made, DiagnosticSink& sink) {
  if (rule.backward && !has_backward(*rule.backward, made, sink)) return false;
  if (!has_lists(rule, shape, axis, sources, made, sink)) return false;
  if (rule.backward && !made.split_backward && made.has_weights_apart()) {
    sink.error("E0411", rule.backward->span, "`backward: \"whole\"` of schedule `{}`, which is made of halves",
               made.schedule)
        .label(rule.schedule->span, "its backward passes send before they compute the weights' gradients")
        .help(R"(leave it out, or take a schedule of whole passes, as `schedule: "1f1b"`)");
    return false;
  }
  if (made.split_backward) made.lists = with_split_backwards(std::move(made.lists));
  return true;
}

}  // namespace mesh
