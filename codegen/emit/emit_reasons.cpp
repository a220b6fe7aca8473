// emit_reasons.cpp: what stands before a collective: what is moved, over which axes, and why.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_calls.h"
#include "codegen/emit/emit_parts.h"

namespace mesh {

namespace {

std::string quoted_axes(const MeshShape& mesh, const std::vector<AxisId>& axes) {
  return axes.empty() ? "" : "`" + axes_text(mesh, axes, "`, `") + "`";
}

/// Why it is there is said where it is made first.
bool is_told(const CollectiveStep& call) { return call.phase != CollectiveStep::Phase::wait && !call.other_turn; }

/// A reason without what it says of one value alone: "needed by their updates".
std::string shared_reason(std::string reason) {
  const auto replace_name = [&](const std::string& before, const std::string& after, const std::string& with) {
    const size_t begin = reason.find(before);
    if (begin == reason.npos) return;
    const size_t end = reason.find('`', begin + before.size());
    if (end == reason.npos || reason.compare(end + 1, after.size(), after) != 0) return;
    reason.replace(begin, end + 1 + after.size() - begin, with);
  };
  replace_name(" of `d_", " leaves", " leaves");
  replace_name("the update of `", " needs", "their updates need");
  replace_name("the update of `", "", "their updates");
  return reason;
}

/// Why the values of one call are moved: values with one reason together.
void emit_reasons_of_values(EmitContext& context, CppWriter& out, const CombinedStep& step) {
  struct Reason {
    std::string names, text, shared;
    int64_t bytes = 0, values = 0;
  };
  std::vector<Reason> reasons;
  for (const CollectiveStep& one : step.collectives) {
    const ReshardStep& why = context.program.sharded.steps[one.step];
    const std::string shared = shared_reason(why.reason);
    auto known = std::ranges::find(reasons, shared, &Reason::shared);
    if (known == reasons.end()) known = reasons.insert(known, {"", why.reason, shared});
    known->names += (known->values == 0 ? "" : ", ") + context.names.buffer(one.from.buffer);
    known->bytes += why.bytes;
    ++known->values;
  }
  for (const Reason& reason : reasons)
    out.comment(fmt::format("    {}, {}: {}", reason.names, bytes_text(reason.bytes),
                            reason.values == 1 ? reason.text : reason.shared));
}

}  // namespace

void emit_reason(EmitContext& context, CppWriter& out, const ReshardStep& why, const std::string& of) {
  // Neighbours that have one reason say it once.
  const std::string cause = why.reason.substr(0, why.reason.find(';'));
  const bool again = cause == context.cause_before && cause.size() < why.reason.size();
  context.cause_before = cause;
  out.comment(fmt::format("  {} over {} ({} ranks){}{} {}: {}", name_of(why.kind),
                          quoted_axes(context.mesh(), why.axes), group_size(context.mesh(), why), of,
                          of.empty() ? "," : "", bytes_text(why.bytes),
                          again ? "as above" + why.reason.substr(cause.size()) : why.reason));
}

namespace {

void emit_reasons_of_call(EmitContext& context, CppWriter& out, const CombinedStep& step) {
  const CollectiveStep& first = step.collectives.front();
  int64_t bytes = 0;
  for (const CollectiveStep& one : step.collectives) bytes += context.program.sharded.steps[one.step].bytes;
  out.comment(fmt::format("  {} over {} ({} ranks) of {} values in one call, {}:", name_of(first.kind),
                          quoted_axes(context.mesh(), first.axes),
                          group_size(context.mesh(), context.program.sharded.steps[first.step]),
                          step.collectives.size(), bytes_text(bytes)));
  emit_reasons_of_values(context, out, step);
  context.cause_before.clear();
}

}  // namespace

void emit_reasons(EmitContext& context, CppWriter& out, const Step& step) {
  const auto moved = movements(step);
  if (!is_told(moved.front())) return;
  if (const auto* several = std::get_if<CombinedStep>(&step.what)) emit_reasons_of_call(context, out, *several);
  else emit_reason(context, out, context.program.sharded.steps[moved.front().step]);
}

}  // namespace mesh
