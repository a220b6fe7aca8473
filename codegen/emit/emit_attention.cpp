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
  std::string begin(const Access& access, DimId dim) const {
    for (const LocalDim& held : dims_of(context.program, access))
      if (held.dim == dim) return context.names.begin(held);
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
  std::string operand(const Access& access, DimId positions) const {
    return fmt::format("{{{}, {{{}, {}, {}}}}}", place(access), stride_along(context, access, batch),
                       stride_along(context, access, {positions}), stride_along(context, access, heads));
  }

  /// One field a line: a reader wants to know which number is what.
  void print_shape(CppWriter& out, const std::string& name) const {
    out.line("meshrt::AttentionShape " + name + ";");
    const auto set = [&](const char* key, const std::string& value) {
      out.line(name + "." + key + " = " + value + ";");
    };
    const std::string head_count = heads.empty() ? "1" : extent_along(context, step.log_sum, heads);
    const bool own_keys = heads.empty() || has_dim(context, step.k, heads.front());
    set("batch", batch.empty() ? "1" : extent_along(context, step.log_sum, batch));
    set("heads", head_count);
    set("key_heads", own_keys ? head_count : "1");
    set("queries", extent(step.q, step.op.query));
    set("keys", extent(step.k, step.op.key));
    set("head", extent(step.q, step.op.head_dim));
    set("value_head", extent(step.v, step.op.value_dim));
    set("scale", number_text(step.op.scale));
    if (step.op.causal) set("causal", "true");
    if (step.op.window > 0) set("window", std::to_string(step.op.window));
    if (const std::string first = begin(step.q, step.op.query); first != "0") set("query_begin", first);
    if (const std::string first = begin(step.k, step.op.key); first != "0") set("key_begin", first);
  }
};

}  // namespace

void emit_attention(EmitContext& context, CppWriter& out, Scope& scope, const AttentionStep& step) {
  const Attention attention(context, step);
  const AttentionOp& op = step.op;
  const std::string shape = scope.fresh("shape"), type = cpp_type(context.program.buffer(step.out.buffer).type);
  attention.print_shape(out, shape);
  const std::string q = attention.operand(step.q, op.query), k = attention.operand(step.k, op.key),
                    v = attention.operand(step.v, op.key), made = attention.operand(step.out, op.query),
                    log_sum = attention.place(step.log_sum);
  std::vector<std::unique_ptr<CppWriter::Block>> blocks;
  for (const LocalDim& loop : attention.loops) {
    const std::string& index = context.names.index(loop.dim);
    blocks.push_back(std::make_unique<CppWriter::Block>(
        out, fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0})", index, context.names.extent(loop)), ""));
  }
  if (step.backward) {
    out.line(fmt::format("meshrt::attend_backward<{}>({}, {}, {}, {}, {}, {}, {}, {}, {}, {});", type, shape, q, k, v,
                         made, log_sum, attention.operand(step.d_out, op.query), attention.operand(step.d_q, op.query),
                         attention.operand(step.d_k, op.key), attention.operand(step.d_v, op.key)));
  } else {
    out.line(fmt::format("meshrt::attend<{}>({}, {}, {}, {}, {}, {});", type, shape, q, k, v, made, log_sum));
  }
  while (!blocks.empty()) blocks.pop_back();
}

}  // namespace mesh
