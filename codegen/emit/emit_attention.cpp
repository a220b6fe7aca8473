// emit_attention.cpp: attention as one call. Of the dims beside positions and features, in the order of log_sum, heads
// (head_dims) and the one before them are the kernel's own loops, the others are `for` loops around it.
#include <fmt/format.h>
#include <fmt/ranges.h>

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
  std::vector<DimId> batch, heads;  // the kernel's own; of batch one at most

  Attention(EmitContext& context, const AttentionStep& step) : context(context), step(step) {
    const std::span<const LocalDim> dims = dims_of(context.program, step.log_sum);
    if (dims.size() != step.batch.size() + 1 || dims.back().dim != step.op.query)
      internal_error("the log-sums of attention do not have the queries innermost");
    for (const LocalDim& head : head_dims(context.program, step)) heads.push_back(head.dim);
    loops.assign(dims.begin(), dims.end() - 1 - static_cast<std::ptrdiff_t>(heads.size()));
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
    return place(address(context, access), access, [](const std::string& stride) { return in_parentheses(stride); });
  }
  template <class Stride>
  std::string place(std::string text, const Access& access, const Stride& stride_of) const {
    for (const LocalDim& loop : loops) {
      const std::string stride = stride_along(context, access, {loop.dim});
      if (stride != "0") text += " + " + context.names.index(loop.dim) + " * " + stride_of(stride);
    }
    return text;
  }
  /// {q, strides}: operands that lie alike share the constant that says how.
  std::string operand(CppWriter& out, Scope& scope, const Access& access, DimId positions) {
    return fmt::format("{{{}, {}}}", short_place(out, scope, access), strides_of(out, scope, access, positions));
  }
  /// The same place, with a name for that of the turn where it would be too long to read with those of the loops.
  std::string short_place(CppWriter& out, Scope& scope, const Access& access) {
    constexpr size_t longest = 90;
    const std::string begin = address(context, access);
    if (loops.empty() || place(access).size() <= longest) return place(access);
    const std::string name = scope.fresh(context.names.buffer(access.buffer) + "_here");
    out.line(fmt::format("auto* const {} = {};", name, begin));
    return place(name, access, in_parentheses);
  }
  std::string strides_of(CppWriter& out, Scope& scope, const Access& access, DimId positions) {
    const std::string text =
        fmt::format("{{{}, {}, {}}}", stride_along(context, access, batch), stride_along(context, access, {positions}),
                    stride_along(context, access, heads));
    const auto known = strides.find(text);
    if (known != strides.end()) return known->second;
    std::string name = scope.fresh(context.names.index(positions) + "_strides");
    out.line(fmt::format("const meshrt::HeadStrides {} = {};", name, text));
    strides[text] = name;
    return name;
  }

  void print_shape(CppWriter& out, const std::string& name) const {
    const std::string head_count = heads.empty() ? "1" : extent_along(context, step.log_sum, heads);
    const bool own_keys = heads.empty() || has_dim(context, step.k, heads.front());
    const LocalDim& queries = held(step.q, step.op.query);
    const bool dealt = queries.placement.deal && !queries.placement.axes.empty();
    const std::string query_begin = dealt ? "0" : context.names.begin(queries),
                      key_begin = step.ring ? "0" : context.names.begin(held(step.k, step.op.key));
    const bool causal = step.op.least == 0;
    const bool more = dealt || (step.op.least && !causal) || step.op.most || query_begin != "0" || key_begin != "0";
    out.line(fmt::format("{}meshrt::AttentionShape {} = meshrt::attention_shape({}, {}, {}, {}, {}, {}, {}, {}, {});",
                         more ? "" : "const ", name, batch.empty() ? "1" : extent_along(context, step.log_sum, batch),
                         head_count, own_keys ? head_count : "1", extent(step.q, step.op.query),
                         extent(step.k, step.op.key), extent(step.q, step.op.head_dim),
                         extent(step.v, step.op.value_dim), number_text(step.op.scale), causal ? "true" : "false"));
    const auto set = [&](const char* key, const std::string& value) {
      out.line(name + "." + key + " = " + value + ";");
    };
    if (step.op.least && !causal) set("least", std::to_string(*step.op.least));
    if (step.op.most) set("most", std::to_string(*step.op.most));
    if (query_begin != "0") set("query_begin", query_begin);
    if (key_begin != "0") set("key_begin", key_begin);
    if (dealt) set("query_at", context.names.indices(queries) + ".data()");
  }

  std::string type_of(const Access& access) const { return cpp_type(context.program.buffer(access.buffer).type); }

  /// The call of the kernel in its loops.
  void call(CppWriter& out, const std::string& arguments) const {
    const std::string type = type_of(step.out), read = type_of(step.q);
    std::vector<std::unique_ptr<CppWriter::Block>> blocks;
    for (const LocalDim& loop : loops) {
      const std::string& index = context.names.index(loop.dim);
      blocks.push_back(std::make_unique<CppWriter::Block>(
          out, fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0})", index, context.names.extent(loop)), ""));
    }
    out.line(fmt::format("meshrt::{}<{}{}>({});", step.backward ? "attend_backward" : "attend", type,
                         read == type ? "" : ", " + read, arguments));
    while (!blocks.empty()) blocks.pop_back();
  }

  std::map<std::string, std::string> strides;  // text -> constant
};

/// Attention whose keys and values go round.
class RingAttention {
 public:
  RingAttention(EmitContext& context, CppWriter& out, Scope& scope, Attention& attention, Span span)
      : context_(context),
        out_(out),
        scope_(scope),
        attention_(attention),
        step_(attention.step),
        ring_(*attention.step.ring),
        span_(span) {}

  void emit(const std::string& shape, const std::string& q, const std::string& made, const std::string& log_sum) {
    reasons();
    std::string d_q, d_out;
    if (step_.backward) {
      d_out = attention_.operand(out_, scope_, step_.d_out, step_.op.query);
      d_q = attention_.operand(out_, scope_, step_.d_q, step_.op.query);
    }
    const std::string k_parts = circulating("k_parts", step_.k, ring_.k),
                      v_parts = circulating("v_parts", step_.v, ring_.v), part = scope_.fresh("part");
    const Deal& deal = attention_.held(step_.k, step_.op.key).placement.deal;
    out_.line(fmt::format("meshrt::RingParts {}(rank, {}, {}, {}, {{{}, {}}}, {}{});", part, context_.group(ring_.axes),
                          site(ring_.k[0]), part_table(context_, {step_.op.key, {{}, deal}}, ring_.axes), k_parts,
                          v_parts, type_text(context_.program.buffer(step_.k.buffer)), dealt(deal)));
    const std::string k = operand(part, 0, step_.k), v = operand(part, 1, step_.v);
    std::string arguments = fmt::format("{}.shape({}), {}, {}, {}, {}, {}", part, shape, q, k, v, made, log_sum), sum;
    if (step_.backward) {
      const std::string d_k_parts = circulating("d_k_parts", step_.d_k, ring_.d_k),
                        d_v_parts = circulating("d_v_parts", step_.d_v, ring_.d_v);
      sum = scope_.fresh("sum");
      out_.line(fmt::format("meshrt::RingSums {}({}, {}, {{{}, {}}}, {});", sum, part, site(ring_.d_k[0]), d_k_parts,
                            d_v_parts, type_text(context_.program.buffer(step_.d_k.buffer))));
      arguments += fmt::format(", {}, {}, {}, {}", d_out, d_q, operand(sum, 0, step_.d_k), operand(sum, 1, step_.d_v));
    }
    const auto turns = out_.block("do", " while (" + part + ".next());");
    attention_.call(out_, arguments);
    if (step_.backward) out_.line(sum + ".next();");
  }

 private:
  /// Why values go round: those of one reason together.
  void reasons() {
    static constexpr const char* names[] = {"k", "v", "d_k", "d_v"};
    const auto why = [&](size_t i) -> const ReshardStep& { return context_.program.sharded.steps[ring_.steps[i]]; };
    for (size_t i = 0; i < ring_.steps.size(); i += 2) {
      if (why(i).reason != why(i + 1).reason || why(i).bytes != why(i + 1).bytes) {
        emit_reason(context_, out_, why(i));
        emit_reason(context_, out_, why(i + 1));
        continue;
      }
      emit_reason(context_, out_, why(i), fmt::format(" of {} and {}, each", names[i], names[i + 1]));
    }
  }

  /// The name of circulating(k, {k_here, k_next}, outer, inner).
  template <size_t count>
  std::string circulating(const char* wanted, const Access& own, const std::array<Access, count>& places) {
    std::vector<std::string> texts;
    texts.reserve(count);
    for (const Access& place : places) texts.push_back(address(context_, place));
    const std::span<const LocalDim> dims = dims_of(context_.program, own);
    const auto key = std::ranges::find(dims, step_.op.key, &LocalDim::dim);
    std::string name = scope_.fresh(wanted);
    out_.line(fmt::format("const auto {} = meshrt::circulating<{}>({}, {{{}}}, {}, {});", name, count,
                          address(context_, own), fmt::join(texts, ", "), context_.names.product({dims.begin(), key}),
                          context_.names.product({key + 1, dims.end()})));
    return name;
  }

  /// How the parts are dealt and which of them a rank meets, where these are not blocks and all.
  std::string dealt(const Deal& deal) const {
    const bool all =
        static_cast<int64_t>(ring_.meets.size()) + 1 == context_.program.sharded.layout.mesh.size(ring_.axes);
    if (all) return deal ? ", " + deal_expression(deal) : "";
    return fmt::format(", {}, {{{}}}", deal ? deal_expression(deal) : "{}", fmt::join(ring_.meets, ", "));
  }

  /// {3, "layer.attn.k"}
  std::string site(const Access& value) {
    const Buffer& buffer = context_.program.buffer(value.buffer);
    return fmt::format("{{{}, {}}}", context_.site(span_),
                       string_literal(buffer.path.empty() ? buffer.name : buffer.path));
  }

  /// {part.at<float>(0), part.strides(0, key_strides)}
  std::string operand(const std::string& of, int value, const Access& own) {
    const std::string at = attention_.place(
        fmt::format("{}.at<{}>({})", of, attention_.type_of(own), value), own,
        [&](const std::string& stride) { return fmt::format("{}.stride({}, {})", of, value, stride); });
    return fmt::format("{{{}, {}.strides({}, {})}}", at, of, value,
                       attention_.strides_of(out_, scope_, own, step_.op.key));
  }

  EmitContext& context_;
  CppWriter& out_;
  Scope& scope_;
  Attention& attention_;
  const AttentionStep& step_;
  const AttentionStep::Ring& ring_;
  const Span span_;
};

}  // namespace

void emit_attention(EmitContext& context, CppWriter& out, Scope& scope, const AttentionStep& step, Span span) {
  Attention attention(context, step);
  const AttentionOp& op = step.op;
  const std::string shape = scope.fresh("shape");
  attention.print_shape(out, shape);
  const auto operand = [&](const Access& access, DimId positions) {
    return attention.operand(out, scope, access, positions);
  };
  if (step.ring) {
    const std::string q = operand(step.q, op.query), made = operand(step.out, op.query);
    return RingAttention(context, out, scope, attention, span)
        .emit(shape, q, made, attention.short_place(out, scope, step.log_sum));
  }
  const std::string q = operand(step.q, op.query), k = operand(step.k, op.key), v = operand(step.v, op.key),
                    made = operand(step.out, op.query), log_sum = attention.short_place(out, scope, step.log_sum);
  std::string gradients;
  if (step.backward)
    gradients = fmt::format(", {}, {}, {}, {}", operand(step.d_out, op.query), operand(step.d_q, op.query),
                            operand(step.d_k, op.key), operand(step.d_v, op.key));
  attention.call(out, fmt::format("{}, {}, {}, {}, {}, {}{}", shape, q, k, v, made, log_sum, gradients));
}

}  // namespace mesh
