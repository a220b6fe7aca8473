#include "codegen/emit/emit_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_calls.h"
#include "codegen/emit/emit_nest.h"
#include "codegen/graph/builder.h"
#include "codegen/program/extent.h"

namespace mesh {

namespace {

constexpr size_t shown_origins = 4;  // lines of the spec named before a step that many were fused into

/// "x [batch/data 2, seq 256]": what a rank holds of a buffer; the largest number where ranks differ.
std::string shape(const EmitContext& context, const Access& access) {
  const Buffer& buffer = context.program.buffer(access.buffer);
  std::string text;
  for (const LocalDim& local : dims_of(context.program, access)) {
    text += (text.empty() ? "" : ", ") + context.graph().dim(local.dim).name;
    for (size_t i = 0; i < local.placement.axes.size(); ++i)
      text += (i == 0 ? "/" : "*") + context.mesh().axes[local.placement.axes[i]].name;
    text += is_even(context.program, local) ? " " : " <= ";
    text += std::to_string(largest_extent(context.program, local));
  }
  return context.names.buffer(access.buffer) + (text.empty() && buffer.dims.empty() ? "" : " [" + text + "]");
}

std::string shapes(const EmitContext& context, const std::vector<const Access*>& accesses, const char* between) {
  std::string text;
  for (const Access* access : accesses) {
    const std::string one = shape(context, *access);
    if (text.find(one) == std::string::npos) text += (text.empty() ? "" : between) + one;
  }
  return text;
}

/// What a step makes, with local shapes; empty where its call says it already.
std::string shapes_of(const EmitContext& context, const Step& step) {
  if (const auto* product = std::get_if<ProductStep>(&step.what))
    return shape(context, product->a) + " · " + shape(context, product->b) + " -> " + shape(context, product->c);
  if (const auto* nest = std::get_if<Nest>(&step.what)) {
    std::vector<const Access*> made;
    for (const Pass& pass : nest->passes) {
      for (const Pass::Store& store : pass.stores) made.push_back(&store.to);
      for (const Pass::Accumulate& one : pass.accumulates) made.push_back(&one.to);
    }
    return "-> " + shapes(context, made, ", ");
  }
  if (const auto* attention = std::get_if<AttentionStep>(&step.what))
    return shapes(context, {&attention->q, &attention->k, &attention->v}, ", ");
  if (const auto* take = std::get_if<TakeStep>(&step.what))
    return shape(context, take->table) + " at " + shape(context, take->ids) + " -> " + shape(context, take->out);
  if (const auto* take = std::get_if<TakeGradientStep>(&step.what))
    return shape(context, take->d) + " at " + shape(context, take->ids) + " -> " + shape(context, take->table);
  if (const auto* copy = std::get_if<CopyStep>(&step.what))
    return shape(context, copy->from) + " -> " + shape(context, copy->to);
  return "";
}

}  // namespace

void emit_origin(EmitContext& context, CppWriter& out, const Step& step, std::string& line_before) {
  std::vector<std::string> lines;
  for (const Span span : step.spans) {
    if (!span.known()) continue;
    const std::string line = context.sources.file_and_line(span) + "  " + context.statement(span);
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
  }
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  if (all == line_before || all.empty()) return;
  line_before = all;
  const bool backward = step.part == Part::input_gradient || step.part == Part::weight_gradient;
  for (size_t i = 0; i < std::min(lines.size(), shown_origins); ++i)
    out.comment(lines[i].substr(0, lines[i].find("  ")) + (backward ? "  gradient of " : "  ") +
                lines[i].substr(lines[i].find("  ") + 2));
  if (lines.size() > shown_origins) out.comment(fmt::format("and {} more lines", lines.size() - shown_origins));
}

void emit_step(EmitContext& context, CppWriter& out, Scope& scope, const Step& step, std::string& line_before) {
  emit_origin(context, out, step, line_before);
  if (const std::string text = shapes_of(context, step); !text.empty()) out.comment("  " + text);
  for (const std::string& note : step.notes) out.comment("  " + note);
  if (const auto* nest = std::get_if<Nest>(&step.what)) return emit_nest(context, out, scope, *nest);
  if (const auto* product = std::get_if<ProductStep>(&step.what)) return emit_product(context, out, *product);
  if (const auto* attention = std::get_if<AttentionStep>(&step.what))
    return emit_attention(context, out, scope, *attention);
  if (const auto* take = std::get_if<TakeStep>(&step.what)) return emit_take(context, out, *take);
  if (const auto* take = std::get_if<TakeGradientStep>(&step.what)) return emit_take_gradient(context, out, *take);
  if (const auto* copy = std::get_if<CopyStep>(&step.what)) return emit_copy(context, out, scope, *copy);
  if (const auto* fill = std::get_if<FillStep>(&step.what)) return emit_fill(context, out, *fill);
  if (const auto* collective = std::get_if<CollectiveStep>(&step.what))
    return emit_collective(context, out, *collective, step.spans.empty() ? Span{} : step.spans.front());
  internal_error("a `for` step reached emit_step");
}

}  // namespace mesh
