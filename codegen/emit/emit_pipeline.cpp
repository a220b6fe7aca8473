// emit_pipeline.cpp: pipelines: the lists of their ranks as constants, what their stages hand on, and the call that
// runs the actions of this rank.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/emit/emit_calls.h"
#include "codegen/emit/emit_parts.h"
#include "codegen/emit/mentions.h"
#include "codegen/layout/cut.h"
#include "codegen/program/pipeline_slots.h"

namespace mesh {

namespace {

/// A list as string literals, as many words in each as go on a line.
std::vector<std::string> literals_of(const std::string& row, size_t room) {
  std::vector<std::string> literals;
  std::string now;
  for (size_t at = 0; at < row.size();) {
    const size_t end = std::min(row.find(' ', at), row.size());
    const std::string word = row.substr(at, end - at) + (end == row.size() ? "" : " ");
    constexpr size_t quotes_and_comma = 3;
    if (!now.empty() && now.size() + word.size() + quotes_and_comma > room) {
      literals.push_back(string_literal(now));
      now.clear();
    }
    now += word;
    at = end + 1;
  }
  literals.push_back(string_literal(now));
  return literals;
}

}  // namespace

void emit_pipeline_run(EmitContext& context, CppWriter& out, const ForStep& loop, const std::string& routine,
                       const ActionCalls& calls) {
  const std::string name = context.names.reserve(routine + "_pipeline");
  context.pipelines.push_back({name, &loop, context.names.reserve(routine + "_rows")});
  const auto block = out.block(name + ".run([&](const meshrt::PipelineAction& action)", ");");
  const auto declare = [&](LoopId of, const char* value) {
    const std::string& turn = context.names.turn(of);
    if (std::ranges::any_of(calls, [&](const auto& call) { return mentions(call.second, turn); }))
      out.line(fmt::format("const int64_t {} = action.{};", turn, value));
  };
  declare(loop.loop, "micro_batch");
  if (loop.order->stage) declare(loop.order->stage, "stage");
  if (calls.size() == 1) return out.line(calls.begin()->second);
  const auto call_of = [&](ActionKind kind, bool keeps = false) {
    const auto found = calls.find({kind, keeps});
    return found == calls.end() ? std::string() : found->second;
  };
  if (const std::string keeps = call_of(ActionKind::forward, true); !keeps.empty()) {
    out.one("if (action.keeps)", keeps);
    out.one("else if (action.work == meshrt::StageWork::forward)", call_of(ActionKind::forward));
  } else {
    out.one("if (action.work == meshrt::StageWork::forward)", call_of(ActionKind::forward));
  }
  if (const std::string again = call_of(ActionKind::recompute); !again.empty())
    out.one("else if (action.work == meshrt::StageWork::recompute)", again);
  if (const std::string whole = call_of(ActionKind::backward); !whole.empty()) return out.one("else", whole);
  // A B is I, then W.
  out.one("if (action.work == meshrt::StageWork::input_gradient || action.work == meshrt::StageWork::backward)",
          call_of(ActionKind::input_gradient));
  out.one("if (action.work == meshrt::StageWork::weight_gradient || action.work == meshrt::StageWork::backward)",
          call_of(ActionKind::weight_gradient));
}

namespace {

std::string what_rows_have(const PipelineSchedule& schedule) {
  const char* again = schedule.has(ActionKind::recompute) ? ", R (what F did not keep, computed again)" : "";
  return schedule.has(ActionKind::weight_gradient)
             ? fmt::format("F{}, I (the gradients of what came into the stage) and W (those of its weights)", again)
             : fmt::format("F{} and B", again);
}

}  // namespace

void emit_rows(EmitContext& context, CppWriter& out) {
  for (const EmittedPipeline& pipeline : context.pipelines) {
    const PipelineOrder& order = *pipeline.loop->order;
    const std::string axis = context.mesh().axes[order.axis].name;
    if (&pipeline == &context.pipelines.front()) out.section("what the stages of `" + axis + "` do");
    out.blank();
    out.comment(fmt::format(
        "{}, one action after the other: {} of each of {} micro-batches, with the number of the stage "
        "in front and that of the micro-batch behind it; SEND_F hands on what F gave, RECV_F posts where it comes in.",
        pipeline.rows, what_rows_have(order.schedule), pipeline.loop->turns));
    const auto block = out.block(fmt::format("constexpr const char* {}[] =", pipeline.rows), ";");
    CppWriter rows(out.depth() + 1);
    for (size_t stage = 0; stage < order.schedule.ranks.size(); ++stage) {
      rows.comment(fmt::format("{} {}", axis, stage));
      const std::vector<std::string> literals =
          literals_of(row_text(order.schedule.ranks[stage]), CppWriter::width - 2 * static_cast<size_t>(rows.depth()));
      for (const std::string& literal : literals) rows.line(literal + (&literal == &literals.back() ? "," : ""));
    }
    out.insert(rows.text());
  }
  const Pipeline& pipeline = context.program.sharded.layout.pipeline;
  for (const auto& [dim, table] : context.turns_of_stages) {
    std::vector<std::string> ranges;
    for (const meshrt::IndexRange& turns : turns_of_stages(context.graph(), pipeline, dim))
      ranges.push_back(fmt::format("{{{}, {}}}", turns.begin, turns.end));
    out.blank();
    out.comment(fmt::format("The turns of `{}` that each stage makes.", context.graph().dim(dim).name));
    out.line(fmt::format("constexpr meshrt::IndexRange {}[] = {{{}}};", table, fmt::join(ranges, ", ")));
  }
}

void emit_pipelines(EmitContext& context, CppWriter& out) {
  if (context.pipelines.empty()) return;
  out.blank();
  out.comment("Pipelines, with what their stages hand to each other.");
  std::vector<std::string> names;
  for (const EmittedPipeline& pipeline : context.pipelines) names.push_back(pipeline.name);
  out.declare("meshrt::Pipeline", names);
  const auto function = out.block("void plan_pipelines()");
  for (const EmittedPipeline& pipeline : context.pipelines) {
    const std::string axis = context.names.axis(pipeline.loop->order->axis);
    out.line(fmt::format("{} = {{rank, {}, {}, {}}};", pipeline.name, axis, context.names.size(pipeline.loop->dim),
                         pipeline.rows));
    for (const MessageStep* message : handed_on(*pipeline.loop)) {
      const Buffer& buffer = context.program.buffer(message->value.buffer);
      const bool by_all = message->among == StageRange{0, pipeline.loop->order->schedule.stages - 1};
      out.line(fmt::format(
          "{}.hand_{}({{{}, {}}}, {{{}, {}}}, {}, {}{});", pipeline.name, message->down ? "backward" : "forward",
          context.site(buffer.span), string_literal(buffer.path.empty() ? buffer.name : buffer.path),
          address(context, {message->value.buffer, {}}),
          context.names.extent(slots_of(context.program, *pipeline.loop, *message)), elements(context, message->value),
          type_text(buffer), by_all ? "" : fmt::format(", {{{}, {}}}", message->among.first, message->among.last)));
    }
  }
}

}  // namespace mesh
