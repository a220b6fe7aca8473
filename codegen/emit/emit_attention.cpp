// emit_attention.cpp: attention as one call. Of the dims beside positions and features (batches, heads) the last two in
// the order of log_sum are the kernel's own loops, the others are `for` loops around it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "codegen/emit/emit_calls.h"
#include "codegen/emit/emit_parts.h"
#include "codegen/graph/builder.h"
#include "codegen/program/extent.h"

namespace mesh {

namespace {

struct Attention {
  EmitContext& context;
  const AttentionStep& step;
  std::vector<LocalDim> loops;      // around the kernel
  std::vector<DimId> batch, heads;  // the kernel's own; none or one each

  Attention(EmitContext& context, const AttentionStep& step) : context(context), step(step) {
    const std::span<const LocalDim> dims = dims_of(context.program, step.log_sum);
    if (dims.size() != step.batch.size() + 1 || dims.back().dim != step.op.query)
      internal_error("the log-sums of attention do not have the queries innermost");
    loops.assign(dims.begin(), dims.end() - 1);
    if (!loops.empty()) heads = {loops.back().dim}, loops.pop_back();
    if (!loops.empty()) batch = {loops.back().dim}, loops.pop_back();
  }

  std::string extent(const Access& access, DimId dim) const { return extent_along(context, access, {dim}); }
  const LocalDim& held(const Access& access, DimId dim) const {
    for (const LocalDim& held : dims_of(context.program, access))
      if (held.dim == dim) return held;
    internal_error("attention lacks the dim " + context.graph().dim(dim).name);
  }

  /// Where an operand begins at these turns of the loops around.
  std::string place(const Access& access) const {
    std::string text = address(context, access);
    for (const LocalDim& loop : loops) {
      const std::string stride = stride_along(context, access, {loop.dim});
      if (stride != "0")
        text += " + " + context.names.index(loop.dim) + " * " +
                (stride.find(' ') == stride.npos ? stride : "(" + stride + ")");
    }
    return text;
  }
  /// {q, strides}: operands that lie alike share the constant that says how.
  std::string operand(CppWriter& out, Scope& scope, const Access& access, DimId positions) {
    const std::string text =
        fmt::format("{{{}, {}, {}}}", stride_along(context, access, batch), stride_along(context, access, {positions}),
                    stride_along(context, access, heads));
    const auto known = strides.find(text);
    if (known != strides.end()) return fmt::format("{{{}, {}}}", place(access), known->second);
    const std::string name = scope.fresh(context.names.index(positions) + "_strides");
    out.line(fmt::format("const meshrt::HeadStrides {} = {};", name, text));
    strides[text] = name;
    return fmt::format("{{{}, {}}}", place(access), name);
  }

  void print_shape(CppWriter& out, const std::string& name) const {
    const std::string head_count = heads.empty() ? "1" : extent_along(context, step.log_sum, heads);
    const bool own_keys = heads.empty() || has_dim(context, step.k, heads.front());
    const LocalDim& queries = held(step.q, step.op.query);
    const bool dealt = queries.placement.deal && !queries.placement.axes.empty();
    const std::string query_begin = dealt ? "0" : context.names.begin(queries),
                      key_begin = context.names.begin(held(step.k, step.op.key));
    const bool more = dealt || step.op.window > 0 || query_begin != "0" || key_begin != "0";
    out.line(fmt::format("{}meshrt::AttentionShape {} = meshrt::attention_shape({}, {}, {}, {}, {}, {}, {}, {}, {});",
                         more ? "" : "const ", name, batch.empty() ? "1" : extent_along(context, step.log_sum, batch),
                         head_count, own_keys ? head_count : "1", extent(step.q, step.op.query),
                         extent(step.k, step.op.key), extent(step.q, step.op.head_dim),
                         extent(step.v, step.op.value_dim), number_text(step.op.scale),
                         step.op.causal ? "true" : "false"));
    const auto set = [&](const char* key, const std::string& value) {
      out.line(name + "." + key + " = " + value + ";");
    };
    if (step.op.window > 0) set("window", std::to_string(step.op.window));
    if (query_begin != "0") set("query_begin", query_begin);
    if (key_begin != "0") set("key_begin", key_begin);
    if (dealt) set("query_at", context.names.indices(queries) + ".data()");
  }

  std::map<std::string, std::string> strides;  // text -> constant
};

}  // namespace

void emit_attention(EmitContext& context, CppWriter& out, Scope& scope, const AttentionStep& step) {
  Attention attention(context, step);
  const AttentionOp& op = step.op;
  const std::string shape = scope.fresh("shape"), type = cpp_type(context.program.buffer(step.out.buffer).type);
  attention.print_shape(out, shape);
  const auto operand = [&](const Access& access, DimId positions) {
    return attention.operand(out, scope, access, positions);
  };
  const std::string q = operand(step.q, op.query), k = operand(step.k, op.key), v = operand(step.v, op.key),
                    made = operand(step.out, op.query), log_sum = attention.place(step.log_sum);
  std::string gradients;
  if (step.backward)
    gradients = fmt::format(", {}, {}, {}, {}", operand(step.d_out, op.query), operand(step.d_q, op.query),
                            operand(step.d_k, op.key), operand(step.d_v, op.key));
  std::vector<std::unique_ptr<CppWriter::Block>> blocks;
  for (const LocalDim& loop : attention.loops) {
    const std::string& index = context.names.index(loop.dim);
    blocks.push_back(std::make_unique<CppWriter::Block>(
        out, fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0})", index, context.names.extent(loop)), ""));
  }
  out.line(fmt::format("meshrt::{}<{}>({}, {}, {}, {}, {}, {}{});", step.backward ? "attend_backward" : "attend", type,
                       shape, q, k, v, made, log_sum, gradients));
  while (!blocks.empty()) blocks.pop_back();
}

}  // namespace mesh
