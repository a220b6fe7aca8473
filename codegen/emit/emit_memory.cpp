#include <fmt/format.h>

#include <array>
#include <map>

#include "codegen/emit/emit_parts.h"
#include "codegen/graph/builder.h"
#include "codegen/program/extent.h"

namespace mesh {

namespace {

constexpr std::array kinds = {BufferKind::input,      BufferKind::parameter, BufferKind::optimizer,
                              BufferKind::state,      BufferKind::cache,     BufferKind::gradient,
                              BufferKind::activation, BufferKind::workspace, BufferKind::result};

const char* title_of(BufferKind kind) {
  switch (kind) {
    case BufferKind::input: return "Inputs of a step.";
    case BufferKind::parameter: return "Parameters.";
    case BufferKind::optimizer: return "The optimizer's state.";
    case BufferKind::state: return "State.";
    case BufferKind::cache: return "What earlier positions have left.";
    case BufferKind::gradient: return "Gradients.";
    case BufferKind::activation: return "Activations.";
    case BufferKind::workspace: return "Workspace.";
    case BufferKind::result: return "Results.";
  }
  return "";
}

/// "float[batch_per_data][seq]"; one of its kind for a scalar.
std::string array_type(EmitContext& context, const Buffer& buffer) {
  std::string type = cpp_type(buffer.type);
  for (const LocalDim& local : buffer.dims) type += "[" + context.names.largest(local) + "]";
  return type;
}

/// The function that lists a stored tensor: "parameter_at".
const char* lister_of(StoredKind kind) {
  switch (kind) {
    case StoredKind::input: return "input_at";
    case StoredKind::parameter: return "parameter_at";
    case StoredKind::optimizer: return "optimizer_at";
    case StoredKind::state: return "state_at";
    case StoredKind::cache: return "cache_at";
  }
  return "";
}

/// "normal(0.02)": how a tensor begins; "" for zeros.
std::string initial_text(const meshrt::Initial& initial) {
  using Kind = meshrt::Initial::Kind;
  const auto bell = [&](const char* name) {
    const std::string mean = initial.a == 0 ? "" : ", " + number_text(initial.a);
    return fmt::format("{}({}{})", name, number_text(initial.b), mean);
  };
  switch (initial.kind) {
    case Kind::zeros: return "";
    case Kind::ones: return "ones()";
    case Kind::constant: return fmt::format("constant({})", number_text(initial.a));
    case Kind::normal: return bell("normal");
    case Kind::truncated_normal: return bell("truncated_normal");
    case Kind::uniform: return fmt::format("uniform({}, {})", number_text(initial.a), number_text(initial.b));
  }
  return "";
}

/// "layer embed heads/model": dims in logical order with the axes that split them, "vocab embed pipe=0,3" where ranks
/// at these coordinates alone hold it.
std::string dims_text(const EmitContext& context, const Buffer& buffer, const std::vector<DimId>& logical) {
  std::string dims;
  for (size_t k = 0; k < buffer.dims.size(); ++k) {
    const LocalDim& local = buffer.dims[k];
    if (local.dim != logical[k]) internal_error("tensor " + buffer.path + " does not lie in its logical order");
    dims += (k == 0 ? "" : " ") + context.graph().dim(local.dim).name;
    for (size_t a = 0; a < local.placement.axes.size(); ++a)
      dims += (a == 0 ? "/" : "*") + context.mesh().axes[local.placement.axes[a]].name;
    if (local.placement.deal) dims += "@" + meshrt::to_text(local.placement.deal);
  }
  if (buffer.stored)
    for (const Where& where : context.program.sharded.placement(context.graph().stored[buffer.stored.index].value).at)
      dims += fmt::format(" {}={}", context.mesh().axes[where.axis].name, fmt::join(where.coordinates, ","));
  return dims;
}

/// As wide for every offset, so that lines do not depend on sizes: "0x000003'0400".
std::string offset_text(int64_t offset) { return fmt::format("0x{:06x}'{:04x}", offset >> 16, offset & 0xffff); }

std::string offset_text(const Buffer& buffer, Space usual) {
  std::string bytes = offset_text(buffer.offset);
  if (buffer.space == usual) return bytes;
  return (buffer.space == Space::arena ? "in_arena(" : "in_own(") + bytes + ")";
}

int line_of(const EmitContext& context, Span span) {
  return span.known() ? static_cast<int>(context.sources.begin(span).line) : 0;
}

/// `parameter_at(0x000003'0400, "layer.attn.wq", "layer embed heads head_dim", 17, {Kind::normal, 0, 0.02})`
std::string listed(EmitContext& context, const Buffer& buffer) {
  const Stored& stored = context.graph().stored[buffer.stored.index];
  const Space usual = stored.kind == StoredKind::parameter ? Space::arena : Space::own;
  std::string call = fmt::format(
      "{}{}({}, {}, {}, {}", lister_of(stored.kind), buffer.type == Type::f32 ? "" : "<" + cpp_type(buffer.type) + ">",
      offset_text(buffer, usual), string_literal(stored.path),
      string_literal(dims_text(context, buffer, stored.type.dims)), line_of(context, stored.span));
  const std::string initial = initial_text(stored.initial);
  if (!initial.empty()) call += ", " + initial;
  else if (stored.kind != StoredKind::input && stored.type.index_of) call += ", {}";
  if (stored.type.index_of) call += ", " + context.names.size(stored.type.index_of);
  return call + ")";
}

/// `output_at(0x000003'0400, "mixed", "batch/data embed", 17)`
std::string listed_output(EmitContext& context, const Buffer& buffer, const EntryPoint::Output& output) {
  return fmt::format("output_at{}({}, {}, {}, {})", buffer.type == Type::f32 ? "" : "<" + cpp_type(buffer.type) + ">",
                     offset_text(buffer, Space::own), string_literal(output.name),
                     string_literal(dims_text(context, buffer, output.dims)), line_of(context, output.span));
}

/// One row of the table: the buffer's declaration, and the line of the spec.
std::pair<std::string, std::string> row(EmitContext& context, BufferId id) {
  const Buffer& buffer = context.program.buffer(id);
  const std::string type = cpp_type(buffer.type);
  const size_t depth = context.names.stack_depth(id);
  const std::string declared = (depth == 2   ? "const Stack<Stack<" + type + ">> "
                                : depth == 1 ? "const Stack<" + type + "> "
                                             : type + "* const ") +
                               context.names.buffer(id);
  if (buffer.stored) return {declared + " = " + listed(context, buffer) + ";", ""};
  for (const EntryPoint& entry : context.program.entries)
    for (const EntryPoint::Output& output : entry.outputs)
      if (output.buffer == id) return {declared + " = " + listed_output(context, buffer, output) + ";", ""};
  return {fmt::format("{} = {}<{}, {}>();", declared, buffer.space == Space::arena ? "arena" : "own",
                      array_type(context, buffer), offset_text(buffer.offset)),
          context.origin(buffer.span)};
}

/// What the optimizer keeps for each parameter, as a struct of pointers; a row for a parameter.
void emit_states(EmitContext& context, CppWriter& out) {
  const std::vector<OptimizerState>& states = context.names.states();
  const auto of_fields = [&](const char* format, const char* between) {
    std::string text;
    for (const std::string& field : states.front().fields)
      text += (text.empty() ? "" : between) + fmt::format(fmt::runtime(format), field);
    return text;
  };
  const std::string type = cpp_type(context.program.buffer(states.front().tensors.front()).type);
  out.blank();
  out.comment("What the optimizer keeps for each parameter.");
  {
    const auto block = out.block("struct State", ";");
    out.line(type + " " + of_fields("*{}", ", ") + ";");
  }
  {
    const auto block = out.block("State state_of(const std::string& parameter, const char* dims, int line, " +
                                 of_fields("size_t {}", ", ") + ")");
    const std::string list = type == "float" ? "optimizer_at" : "optimizer_at<" + type + ">";
    const std::vector<std::string>& fields = states.front().fields;
    for (const std::string& field : fields)
      out.line(fmt::format("{}{}({}, parameter + \".{}\", dims, line){}",
                           field == fields.front() ? "return {" : "        ", list, field, field,
                           field == fields.back() ? "};" : ","));
  }
  for (const OptimizerState& state : states) {
    const Buffer& first = context.program.buffer(state.tensors.front());
    std::string offsets;
    for (const BufferId id : state.tensors) offsets += ", " + offset_text(context.program.buffer(id).offset);
    const Stored& parameter = context.graph().stored[context.graph().stored[first.stored.index].parameter.index];
    out.line(fmt::format("const State {} = state_of({}, {}, {}{});", state.name, string_literal(parameter.path),
                         string_literal(dims_text(context, first, parameter.type.dims)), line_of(context, first.span),
                         offsets));
  }
}

/// Single numbers of this rank alone are members: "float sum, sum_2;".
void emit_numbers(EmitContext& context, CppWriter& out) {
  std::map<std::string, std::vector<std::string>> names;  // by type
  for (uint32_t i = 0; i < context.program.buffers.size(); ++i)
    if (context.names.is_number(BufferId{i}) && !context.program.buffers[i].view_of)
      names[cpp_type(context.program.buffers[i].type)].push_back(context.names.buffer(BufferId{i}));
  if (names.empty()) return;
  out.blank();
  out.comment("Single numbers.");
  for (const auto& [type, list] : names) out.declare(type, list);
}

}  // namespace

std::string number_text(double value) { return fmt::format("{}", value); }

void emit_memory(EmitContext& context, CppWriter& out) {
  const Program& program = context.program;
  std::string title = "Memory, each buffer at its place in the plan: those that never live together share bytes. ";
  for (const BufferKind kind : kinds) {
    const bool as_states = kind == BufferKind::optimizer && !context.names.states().empty();
    if (as_states) emit_states(context, out);
    std::vector<std::pair<std::string, std::string>> rows;
    for (uint32_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& buffer = program.buffers[i];
      if (buffer.kind != kind || buffer.view_of || buffer.offset < 0 || context.names.is_number(BufferId{i})) continue;
      if (as_states && context.graph().stored[buffer.stored.index].parameter) continue;
      rows.push_back(row(context, BufferId{i}));
    }
    if (rows.empty()) continue;
    out.blank();
    out.comment(title + title_of(kind));
    title.clear();
    out.table(rows);
  }
  emit_numbers(context, out);
}

}  // namespace mesh
