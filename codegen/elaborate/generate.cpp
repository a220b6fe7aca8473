#include "codegen/elaborate/generate.h"

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/terms.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

/// The input that is continued: indices, which is what logits choose.
const Stored* continued(Elaboration& e, Frame& frame, const ast::Name& name) {
  const Binding* binding = find_name(frame, name.text);
  if (binding != nullptr && binding->kind == Binding::Kind::value && binding->term.poisoned()) return nullptr;
  const bool stored = binding != nullptr && binding->kind == Binding::Kind::stored;
  const Stored* input = stored ? &e.graph.stored[binding->stored.index] : nullptr;
  if (input == nullptr || input->kind != StoredKind::input) {
    std::vector<std::string> inputs;
    for (const Stored& one : e.graph.stored)
      if (one.kind == StoredKind::input) inputs.push_back(one.path);
    auto report = e.error("E0511", name.span, "`generate` continues an input, and `{}` is none", name.text);
    if (const auto near = did_you_mean(name.text, inputs)) report.here("did you mean `{}`?", *near);
    else
      report.help(inputs.empty() ? "`input token : index(vocab)[batch, seq]` declares one"
                                 : "inputs are " + quoted(inputs));
    return nullptr;
  }
  if (input->type.index_of) return input;
  e.error("E0511", name.span, "`generate` chooses elements of a dim, and `{}` does not hold such", name.text)
      .here(to_string(e.graph, input->type))
      .label(input->span, "declared here")
      .help("`input token : index(vocab)[batch, seq]`: what is generated are indices, and the logits have their dim");
  return nullptr;
}

/// What the logits are to be: floats, one for each element that may come next, for each place of the input. Shares of
/// them are computed in f32.
ValueId next_elements(Elaboration& e, Frame& frame, const ast::Name& name, const Stored& input) {
  ast::Expr path;
  path.node = ast::Path{{name}, name.span};
  path.span = name.span;
  const Term term = expression(e, frame, path);
  const ValueId logits = tensor_of(e, term, name.span);
  if (!logits) return {};
  std::vector<DimId> dims = input.type.dims;
  if (!contains(dims, input.type.index_of)) dims.push_back(input.type.index_of);
  const ValueType& type = e.type(logits);
  if (is_float(type.element) && contains_all(type.dims, dims) && contains_all(dims, type.dims))
    return e.build.computed(logits);
  e.error("E0511", name.span, "`{}` does not say what comes next in `{}`", name.text, input.path)
      .here(describe(e, term))
      .label(input.span, fmt::format("`{}` is {}", input.path, to_string(e.graph, input.type)))
      .help(fmt::format("give the logits: floats with dims {}", quoted(e, dims)));
  return {};
}

}  // namespace

void generate_statement(Elaboration& e, Frame& frame, const ast::Generate& statement, Span span) {
  if (e.graph.generation) {
    e.error("E0511", span, "a second `generate` in one model").label(e.graph.generation->span, "the first");
    return;
  }
  const Stored* input = continued(e, frame, statement.input);
  const DimId along = dim_named(e, *frame.dims, statement.along);
  if (input == nullptr || !along) return;
  if (!contains(input->type.dims, along)) {
    e.error("E0511", statement.along.span, "`{}` does not run along `{}`", input->path, e.name(along))
        .here(to_string(e.graph, input->type))
        .help(fmt::format("its dims are {}", quoted(e, input->type.dims)));
    return;
  }
  const StoredId id = find_name(frame, statement.input.text)->stored;
  if (const ValueId logits = next_elements(e, frame, statement.from, *input); logits)
    e.graph.generation = Generation{id, along, logits, span};
}

}  // namespace mesh::elaboration
