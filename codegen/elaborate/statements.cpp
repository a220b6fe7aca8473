#include "codegen/elaborate/statements.h"

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/generate.h"
#include "codegen/elaborate/manual.h"
#include "codegen/elaborate/minimize.h"
#include "codegen/elaborate/names.h"
#include "codegen/elaborate/repeat.h"
#include "codegen/elaborate/state.h"
#include "codegen/elaborate/terms.h"

namespace mesh::elaboration {
namespace {

bool in_model(const Frame& frame) { return frame.block == nullptr && frame.outer == nullptr; }

/// E0317 for what belongs to the model itself.
bool needs_model(Elaboration& e, const Frame& frame, Span span, const char* what) {
  if (in_model(frame)) return true;
  e.error("E0317", span, "{} belongs to the model itself", what)
      .here(frame.outer != nullptr ? "this is inside a `repeat`" : "this is inside a block");
  return false;
}

/// A name that parameters, inputs and instances take must be free, here and around a loop.
bool name_is_free(Elaboration& e, Frame& frame, const ast::Name& name) {
  const Binding* known = find_name(frame, name.text);
  if (known == nullptr || known->span == name.span) return true;
  if (frame.names.count(name.text) > 0) {
    if (known->kind != Binding::Kind::value) return false;  // reported where it was declared
    e.error("E0204", name.span, "`{}` is declared twice", name.text)
        .here("again here")
        .label(known->span, "first here");
  } else {
    e.error("E0211", name.span, "`{}` in a `repeat` hides the `{}` around it", name.text, name.text)
        .label(known->span, "this one")
        .help("give it another name");
  }
  return false;
}

/// Names declared by the pass over what bodies own (blocks.h) become visible.
void bind_owned(Elaboration& e, Frame& frame, const std::vector<ast::Name>& names) {
  for (const ast::Name& name : names) {
    if (!name_is_free(e, frame, name)) continue;
    const std::string path = join(frame.path, name.text);
    Binding binding;
    binding.span = name.span;
    binding.home = frame.home;
    if (const auto stored = e.tables.stored.find(path); stored != e.tables.stored.end()) {
      binding.kind = Binding::Kind::stored;
      binding.stored = stored->second;
    } else if (const auto instance = e.tables.instances.find(path); instance != e.tables.instances.end()) {
      binding.kind = Binding::Kind::instance;
      binding.instance = instance->second;
    }
    frame.names.insert_or_assign(name.text, binding);
  }
}

void state_statement(Elaboration& e, Frame& frame, const ast::State& state) {
  bind_owned(e, frame, state.names);
  for (const ast::Name& name : state.names)
    if (const auto bound = frame.names.find(name.text); bound != frame.names.end())  // else the name is taken outside
      begin_state(e, frame, bound->second, *state.initial);
}

void port_statement(Elaboration& e, Frame& frame, const ast::Port& port, Span span) {
  if (port.direction == ast::Port::Direction::input) bind_owned(e, frame, port.names);
  else needs_model(e, frame, span, "an output");  // results_of_model
}

const char* kind_text(const Elaboration& e, const Binding& binding) {
  if (binding.kind == Binding::Kind::instance) return "an instance";
  switch (e.graph.stored[binding.stored.index].kind) {
    case StoredKind::input: return "an input";
    case StoredKind::parameter: return "a parameter";
    default: return "a state";
  }
}

/// Binds one name, new or again.
void bind_name(Elaboration& e, Frame& frame, const ast::Name& name, const Term& term) {
  if (const auto own = frame.names.find(name.text); own != frame.names.end()) {
    Binding& known = own->second;
    if (known.kind != Binding::Kind::value) {
      e.error("E0212", name.span, "`{}` is {} and cannot be bound again", name.text, kind_text(e, known))
          .label(known.span, "declared here")
          .help(kind_text(e, known) == std::string_view("a state")
                    ? fmt::format("`{} <- ...` gives it its next value", name.text)
                    : "give the new value a name of its own");
      return;
    }
    if (frame.outer == nullptr) {
      e.error("E0212", name.span, "`{}` is bound twice", name.text)
          .here("again here")
          .label(known.span, "first here")
          .help("outside a `repeat` a name means one value: give the second one a name of its own");
      return;
    }
    known.term = term;
    known.span = name.span;
    known.regions = e.regions.size();
  } else if (const Binding* around = find_name(frame, name.text)) {
    // Values bound before a loop are its carries and stand among its own names already.
    e.error("E0211", name.span, "`{}` in a `repeat` hides the `{}` around it", name.text, name.text)
        .label(around->span, "this one")
        .help(fmt::format("a loop carries values: `NAME = {}` before it, and `NAME = ...` inside", name.text));
    return;
  } else {
    if (frame.block == nullptr && e.constants.count(name.text) > 0) {
      e.error("E0204", name.span, "`{}` is a const already", name.text)
          .label(e.sizes.at(name.text).declared, "declared here")
          .help("give the value another name");
      return;
    }
    Binding binding;
    binding.term = term;
    binding.span = name.span;
    binding.regions = e.regions.size();
    frame.names.emplace(name.text, binding);
  }
  record_name(e, join(frame.call, name.text), term);
}

void bind_statement(Elaboration& e, Frame& frame, const ast::Bind& statement) {
  std::vector<Term> terms = expressions(e, frame, *statement.value);
  if (terms.size() != statement.names.size()) {
    const bool poisoned = terms.size() == 1 && terms[0].poisoned();
    if (!poisoned)
      e.error("E0310", statement.value->span, "this gives {} value{}, and {} name{} stand{} before `=`", terms.size(),
              terms.size() == 1 ? "" : "s", statement.names.size(), statement.names.size() == 1 ? "" : "s",
              statement.names.size() == 1 ? "s" : "")
          .help("one name for each: `a, b = f(x)`");
    terms.assign(statement.names.size(), Term::poison());
  }
  std::optional<WrittenType> type;
  if (statement.type) {
    type = written_type(e, *frame.dims, *statement.type);
    if (type && type->rest && !frame.dims->rest) {
      e.error("E0310", type->span, "`...` stands for dims that the block's signature does not name");
      type.reset();
    }
  }
  const std::vector<DimId> rest = frame.dims->rest.value_or(std::vector<DimId>{});
  const ValueType wanted = type ? type->with_rest(rest) : ValueType{};
  for (size_t i = 0; i < terms.size(); ++i) {
    Term term = terms[i];
    if (statement.type) {
      const std::string what = fmt::format("`{}` is declared", statement.names[i].text);
      term = type ? as_written(e, term, wanted, statement.value->span, type->span, what, false) : Term::poison();
    }
    bind_name(e, frame, statement.names[i], term);
  }
}

void return_statement(Elaboration& e, Frame& frame, const ast::Return& statement, Span span) {
  if (frame.block == nullptr || frame.outer != nullptr) {
    e.error("E0317", span, "`return` ends a block")
        .here(frame.outer != nullptr ? "this is inside a `repeat`" : "this is inside a model");
    return;
  }
  if (frame.returned.known()) {
    e.error("E0317", span, "a second `return`")
        .label(frame.returned, "the block ends here")
        .help("one `return` gives several values: `return a, b`");
    return;
  }
  frame.returned = span;
  for (const ast::ExprPtr& value : statement.values)
    for (const Term& term : expressions(e, frame, *value)) frame.results.emplace_back(term, value->span);
}

}  // namespace

void statements(Elaboration& e, Frame& frame, const ast::Body& body) {
  for (const ast::Statement& statement : body) {
    e.build.span = statement.span;
    if (!may_stand_here(e, frame, statement)) continue;
    if (const auto* s = std::get_if<ast::Bind>(&statement.node)) bind_statement(e, frame, *s);
    else if (const auto* s = std::get_if<ast::Parameter>(&statement.node)) bind_owned(e, frame, s->names);
    else if (const auto* s = std::get_if<ast::Port>(&statement.node)) port_statement(e, frame, *s, statement.span);
    else if (const auto* s = std::get_if<ast::Repeat>(&statement.node)) repeat_statement(e, frame, *s, statement.span);
    else if (const auto* s = std::get_if<ast::Manual>(&statement.node)) manual_statement(e, frame, *s, statement.span);
    else if (const auto* s = std::get_if<ast::Return>(&statement.node)) return_statement(e, frame, *s, statement.span);
    else if (const auto* s = std::get_if<ast::Require>(&statement.node)) check_requirement(e, *frame.dims, *s);
    else if (std::holds_alternative<ast::Metric>(statement.node))
      needs_model(e, frame, statement.span, "a metric");  // results_of_model
    else if (const auto* s = std::get_if<ast::State>(&statement.node)) state_statement(e, frame, *s);
    else if (const auto* s = std::get_if<ast::Update>(&statement.node)) update_statement(e, frame, *s);
    else if (const auto* s = std::get_if<ast::Generate>(&statement.node)) {
      if (needs_model(e, frame, statement.span, "`generate`")) generate_statement(e, frame, *s, statement.span);
    } else if (const auto* s = std::get_if<ast::Minimize>(&statement.node)) {
      if (needs_model(e, frame, statement.span, "`minimize`")) minimize_statement(e, frame, *s, statement.span);
    }
  }
}

}  // namespace mesh::elaboration
