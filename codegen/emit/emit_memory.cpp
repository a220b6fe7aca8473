#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/emit/emit_parts.h"
#include "codegen/graph/builder.h"
#include "codegen/program/extent.h"

namespace mesh {

namespace {

constexpr std::array kinds = {BufferKind::input,    BufferKind::parameter,  BufferKind::optimizer, BufferKind::state,
                              BufferKind::gradient, BufferKind::activation, BufferKind::workspace, BufferKind::result};

const char* title_of(BufferKind kind) {
  switch (kind) {
    case BufferKind::input: return "Inputs of a step.";
    case BufferKind::parameter: return "Parameters.";
    case BufferKind::optimizer: return "The optimizer's state.";
    case BufferKind::state: return "State.";
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

const char* role_of(StoredKind kind) {
  switch (kind) {
    case StoredKind::input: return "input";
    case StoredKind::parameter: return "parameter";
    case StoredKind::optimizer: return "optimizer";
    case StoredKind::state: return "state";
  }
  return "";
}

std::string initial_text(const meshrt::Initial& initial) {
  using Kind = meshrt::Initial::Kind;
  const char* name = "zeros";
  switch (initial.kind) {
    case Kind::zeros: return "{}";
    case Kind::ones: return "{Kind::ones}";
    case Kind::constant: name = "constant"; break;
    case Kind::normal: name = "normal"; break;
    case Kind::truncated_normal: name = "truncated_normal"; break;
    case Kind::uniform: name = "uniform"; break;
  }
  return fmt::format("{{Kind::{}, {}, {}}}", name, number_text(initial.a), number_text(initial.b));
}

/// `table.add("wq", Role::parameter, wq, "embed heads/model", 12`, to be closed.
std::string tensor_call(EmitContext& context, BufferId id, const std::string& name, const char* role,
                        const ValueType& type, Span span) {
  const Buffer& buffer = context.program.buffer(id);
  std::string dims;
  for (size_t k = 0; k < buffer.dims.size(); ++k) {
    const LocalDim& local = buffer.dims[k];
    if (local.dim != type.dims[k]) internal_error("tensor " + name + " does not lie in its logical order");
    dims += (k == 0 ? "" : " ") + context.graph().dim(local.dim).name;
    for (size_t a = 0; a < local.placement.axes.size(); ++a)
      dims += (a == 0 ? "/" : "*") + context.mesh().axes[local.placement.axes[a]].name;
  }
  const int line = span.known() ? static_cast<int>(context.sources.begin(span).line) : 0;
  return fmt::format("table.add({}, Role::{}, {}, {}, {}", quoted(name), role, address(context, {id, {}}), quoted(dims),
                     line);
}

}  // namespace

std::string number_text(double value) { return fmt::format("{}", value); }

void emit_memory(EmitContext& context, CppWriter& out) {
  const Program& program = context.program;
  out.blank();
  out.comment("Memory: every buffer at the place that the plan gave it. Buffers that never live together share bytes.");
  for (const char* space : {"arena", "own"})
    out.print(R"(
      template <class T, size_t offset>
      std::remove_all_extents_t<T>* $space$() const {
        static_assert(offset + sizeof(T) <= $space$_bytes, "the memory plan");
        return reinterpret_cast<std::remove_all_extents_t<T>*>(rank.$space$() + offset);
      }
      template <size_t offset>
      meshrt::StackPlace<offset, $space$_bytes> $space$_stack() const {
        return {rank.$space$()};
      })",
              {{"space", space}});
  for (const BufferKind kind : kinds) {
    std::vector<std::pair<std::string, std::string>> rows;
    for (uint32_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& buffer = program.buffers[i];
      if (buffer.kind != kind || buffer.view_of || buffer.offset < 0) continue;
      const char* space = buffer.space == Space::arena ? "arena" : "own";
      const std::string type = cpp_type(buffer.type), &name = context.names.buffer(BufferId{i});
      const std::string array = array_type(context, buffer);
      rows.emplace_back(
          context.names.is_stack(BufferId{i})
              ? fmt::format("const meshrt::Stack<{}> {} = {}_stack<{}>();", array, name, space, buffer.offset)
              : fmt::format("{}* const {} = {}<{}, {}>();", type, name, space, array, buffer.offset),
          context.origin(buffer.span));
    }
    if (rows.empty()) continue;
    out.blank();
    out.comment(title_of(kind));
    out.table(rows);
  }
}

void emit_tensors(EmitContext& context, CppWriter& out) {
  const Program& program = context.program;
  const Graph& graph = context.graph();
  out.blank();
  out.comment("The tensors that outlive a step, for input, output, checkpoints and messages.");
  const auto block = out.block("void list_tensors(meshrt::TensorTable& table)");
  out.line("using meshrt::Role;");
  out.line("using Kind = meshrt::Initial::Kind;");
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (!buffer.stored || buffer.view_of || buffer.offset < 0) continue;
    const Stored& stored = graph.stored[buffer.stored.index];
    std::string call = tensor_call(context, BufferId{i}, stored.path, role_of(stored.kind), stored.type, stored.span);
    const std::string initial = initial_text(stored.initial);
    if (stored.type.index_of) call += fmt::format(", {}, {}", initial, context.names.size(stored.type.index_of));
    else if (initial != "{}") call += ", " + initial;
    out.line(call + ");");
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Output& output = graph.outputs[i];
    if (output.stored) continue;
    out.line(tensor_call(context, program.outputs[i], output.name, "output", graph.type(output.value), output.span) +
             ");");
  }
}

}  // namespace mesh
