#include "codegen/emit/emit_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_calls.h"
#include "codegen/emit/emit_checks.h"
#include "codegen/emit/emit_nest.h"
#include "codegen/emit/outline.h"
#include "codegen/graph/builder.h"
#include "codegen/program/extent.h"
#include "codegen/program/overlap.h"
#include "codegen/program/step.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

constexpr size_t shown_origins = 4;  // lines of the spec named before a step that many were fused into

/// "batch/data 2, seq 256": what a rank holds; the largest number where ranks differ.
std::string dims_text(const EmitContext& context, std::span<const LocalDim> dims, const char* between) {
  std::string text;
  for (const LocalDim& local : dims) {
    text += (text.empty() ? "" : between) + context.graph().dim(local.dim).name;
    for (size_t i = 0; i < local.placement.axes.size(); ++i)
      text += (i == 0 ? "/" : "*") + context.mesh().axes[local.placement.axes[i]].name;
    text += deal_text(local.placement.deal);
    text += is_even(context.program, local) ? " " : " <= ";
    text += std::to_string(largest_extent(context.program, local));
  }
  return text;
}

const std::string& name_of(const EmitContext& context, const Access& access) {
  return context.names.buffer(access.buffer);
}

}  // namespace

std::string local_shape(const EmitContext& context, const Access& access) {
  const std::string dims = dims_text(context, dims_of(context.program, access), ", ");
  return name_of(context, access) + (dims.empty() ? "" : " [" + dims + "]");
}

namespace {

/// "x, y [batch/data 2, seq 256]; z [seq 256]": those of one shape together.
std::string shapes(const EmitContext& context, const std::vector<const Access*>& accesses) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_shape;  // in the order of their first one
  for (const Access* access : accesses) {
    const std::string& name = name_of(context, *access);
    const std::string dims = dims_text(context, dims_of(context.program, *access), ", ");
    auto group = std::ranges::find(by_shape, dims, &std::pair<std::string, std::vector<std::string>>::first);
    if (group == by_shape.end()) group = by_shape.insert(group, {dims, {}});
    if (std::ranges::find(group->second, name) == group->second.end()) group->second.push_back(name);
  }
  std::vector<std::string> texts;
  texts.reserve(by_shape.size());
  for (const auto& [dims, names] : by_shape)
    texts.push_back(fmt::format("{}{}", fmt::join(names, ", "), dims.empty() ? "" : " [" + dims + "]"));
  return fmt::format("{}", fmt::join(texts, "; "));
}

/// "q = x · wq: batch/data 8 x seq 128 by heads 4 x head_dim 32, over embed 128"
std::string product_text(const EmitContext& context, const ProductStep& step) {
  const auto group = [&](const Access& access, const std::vector<DimId>& dims) {
    std::vector<LocalDim> held;
    for (const LocalDim& local : dims_of(context.program, access))
      if (std::ranges::find(dims, local.dim) != dims.end()) held.push_back(local);
    return held.empty() ? std::string("1") : dims_text(context, held, " x ");
  };
  std::string text = fmt::format("{} {} {} · {}: {} by {}, over {}", name_of(context, step.c),
                                 step.accumulate ? "+=" : "=", name_of(context, step.a), name_of(context, step.b),
                                 group(step.c, step.rows), group(step.c, step.cols), group(step.b, step.inner));
  if (!step.batch.empty()) text += ", for each " + group(step.c, step.batch);
  return text;
}

struct ShapesOf {
  const EmitContext& context;
  std::string pair(const Access& from, const char* between, const Access& to) const {
    return local_shape(context, from) + between + local_shape(context, to);
  }
  std::string operator()(const Nest& nest) const {
    std::vector<const Access*> made;
    for (const Pass& pass : nest.passes) {
      for (const Pass::Store& store : pass.stores) made.push_back(&store.to);
      for (const Pass::Accumulate& one : pass.accumulates) made.push_back(&one.to);
    }
    return "-> " + shapes(context, made);
  }
  std::string operator()(const ProductStep& product) const { return product_text(context, product); }
  std::string operator()(const AttentionStep& a) const { return shapes(context, {&a.q, &a.k, &a.v}); }
  std::string operator()(const TakeStep& take) const { return pair(take.table, " at ", take.ids); }
  std::string operator()(const ScatterStep& scatter) const { return pair(scatter.rows, " at ", scatter.ids); }
  std::string operator()(const DefinedStep& step) const { return step.definition->shapes(context, step); }
  std::string operator()(const CopyStep& copy) const { return pair(copy.from, " -> ", copy.to); }
  std::string operator()(const FillStep&) const { return ""; }
  std::string operator()(const CollectiveStep&) const { return ""; }
  std::string operator()(const CombinedStep&) const { return ""; }
  std::string operator()(const MessageStep& message) const {
    const MeshAxis& axis = context.mesh().axes[message.axis];
    return fmt::format("{} {} the stage {} on `{}`", local_shape(context, message.value),
                       message.sends ? "goes to" : "has come from", message.down == message.sends ? "before" : "behind",
                       axis.name);
  }
  std::string operator()(const UntilStep&) const { return ""; }
  template <HasBodies Kind>
  std::string operator()(const Kind&) const {
    return "";
  }
};

/// What a step makes, with local shapes; "" where its own text says that.
std::string shapes_of(const EmitContext& context, const Step& step) { return std::visit(ShapesOf{context}, step.what); }

/// `at_line("gpt.mesh:24  score = dot[head_dim](q, k)");`, cut to `room` columns.
std::string line_call(std::string line, size_t room) {
  const auto call = [](const std::string& text) { return "at_line(" + string_literal(text) + ");"; };
  constexpr const char* more = "...";
  if (call(line).size() <= room) return call(line);
  const auto is_within_letter = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  while (!line.empty() && call(line + more).size() > room) {
    while (is_within_letter(line.back())) line.pop_back();
    line.pop_back();
  }
  return call(line + more);
}

void emit_body(EmitContext& context, CppWriter& out, Scope& scope, const Step& step);

}  // namespace

void emit_origin(EmitContext& context, CppWriter& out, const Step& step, Origin& before) {
  const bool loop = has_bodies(step);
  const bool backward = std::string_view(phase_of(step.part)) == "backward";
  std::vector<std::string> lines;
  for (const Span span : step.spans) {
    if (!span.known()) continue;
    const std::string statement = context.statement(span);
    // That a step stands in a loop is seen from where it stands.
    if (statement.starts_with("repeat ") && !loop) continue;
    const std::string line = context.origin(span) + (backward ? "  gradient of " : "  ") + statement;
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
  }
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  if (all == before.lines || all.empty()) return;
  before.lines = all;
  out.blank();
  // A loop's cost is that of what stands in it. Of lines fused into one loop nest the last one's, of a collective that
  // of the line that needs it.
  std::string counted;
  if (!loop) {
    const auto at = movements(step).empty() ? lines.end() - 1 : lines.begin();
    counted = *at;
    lines.erase(at);
  }
  const size_t comments = shown_origins - (loop ? 0 : 1), shown = std::min(lines.size(), comments);
  for (size_t i = 0; i < shown; ++i) out.comment(lines[i]);
  if (lines.size() > shown) out.comment(fmt::format("and {} more lines", lines.size() - shown));
  if (counted == before.counted) return;
  before.counted = counted;
  if (!counted.empty()) out.line(line_call(counted, CppWriter::width - 2 * static_cast<size_t>(out.depth())));
}

void emit_step(EmitContext& context, CppWriter& out, Scope& scope, const Step& step, const Step& origin,
               Origin& before) {
  emit_origin(context, out, origin, before);
  emit_body(context, out, scope, step);
  if (context.find_nonfinite) check_made(context, out, scope, step);
}

namespace {

/// The C++ of one step.
struct EmitStep {
  EmitContext& context;
  CppWriter& out;
  Scope& scope;
  const Step& step;
  void operator()(const Nest& nest) const { emit_nest(context, out, scope, nest); }
  void operator()(const ProductStep& product) const { emit_product(context, out, scope, product); }
  void operator()(const AttentionStep& attention) const {
    emit_attention(context, out, scope, attention, step.spans.empty() ? Span{} : step.spans.front());
  }
  void operator()(const TakeStep& take) const { emit_take(context, out, take); }
  void operator()(const ScatterStep& scatter) const { emit_scatter(context, out, scatter); }
  void operator()(const DefinedStep& step) const { step.definition->emit(context, out, step); }
  void operator()(const CopyStep& copy) const { emit_copy(context, out, scope, copy); }
  void operator()(const FillStep& fill) const { emit_fill(context, out, fill); }
  void operator()(const CollectiveStep&) const { emit_collective(context, out, step); }
  void operator()(const CombinedStep&) const { emit_collective(context, out, step); }
  void operator()(const MessageStep&) const {}  // its row says when
  void operator()(const UntilStep&) const { of_control(); }
  template <HasBodies Kind>
  void operator()(const Kind&) const {
    of_control();
  }
  static void of_control() { internal_error("a step of control itself reached emit_step"); }
};
void emit_body(EmitContext& context, CppWriter& out, Scope& scope, const Step& step) {
  context.polls = context.meanwhile.contains(&step);
  if (const auto* nest = std::get_if<Nest>(&step.what); nest != nullptr && context.outline != nullptr)
    if (const std::optional<std::string> call = context.outline->call(*nest)) return out.line(*call);
  if (const std::string text = shapes_of(context, step); !text.empty()) out.comment("  " + text);
  for (const std::string& note : step.notes) out.comment("  " + note);

  std::visit(EmitStep{context, out, scope, step}, step.what);
}

}  // namespace

}  // namespace mesh
