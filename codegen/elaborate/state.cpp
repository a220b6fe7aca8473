#include "codegen/elaborate/state.h"

#include <algorithm>

#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/names.h"
#include "codegen/elaborate/repeat.h"
#include "codegen/elaborate/terms.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

/// The state that `<-` names; null, and E0202, where it names none.
const Binding* state_named(Elaboration& e, Frame& frame, const ast::Name& name) {
  const Binding* binding = find_name(frame, name.text);
  if (binding != nullptr && binding->kind == Binding::Kind::value && binding->term.poisoned()) return nullptr;
  if (binding != nullptr && binding->kind == Binding::Kind::stored &&
      e.graph.stored[binding->stored.index].kind == StoredKind::state)
    return binding;
  auto report = e.error("E0202", name.span, "`<-` updates a state, and `{}` is none", name.text);
  std::vector<std::string> states;
  for (const Frame* at = &frame; at != nullptr; at = at->outer)
    for (const auto& [known, other] : at->names)
      if (other.kind == Binding::Kind::stored && e.graph.stored[other.stored.index].kind == StoredKind::state)
        states.push_back(known);
  if (const auto near = did_you_mean(name.text, states)) report.here("did you mean `{}`?", *near);
  if (binding != nullptr) report.label(binding->span, "`{}` is here", name.text);
  report.help("`state s : f32[dim] = zeros` declares one; `x = ...` binds a value");
  return nullptr;
}

/// A state outside a loop would be updated in every turn of it.
bool lies_in_all_loops(Elaboration& e, const Binding& state, const ast::Name& name) {
  const Stored& stored = e.graph.stored[state.stored.index];
  for (const Loop* loop : e.loops) {
    if (std::find(state.home.begin(), state.home.end(), loop) != state.home.end()) continue;
    const std::string& dim = e.name(loop->dim);
    e.error("E0509", name.span, "`{}` would be updated in every turn of `repeat {}`", stored.path, dim)
        .here("takes effect once, at the end of the step")
        .label(stored.span, "the state lies outside the loop")
        .help(fmt::format("declare it inside `repeat {}`: it then has a value for each turn", dim));
    return false;
  }
  return true;
}

void updated_twice(Elaboration& e, const Stored& stored, const StateUpdate& first, const StateUpdate& second) {
  if (first.span != second.span) {
    e.error("E0509", second.span, "state `{}` is updated twice", stored.path)
        .here("again here")
        .label(first.span, "first here")
        .help("`<-` takes effect at the end of the step: only one value can stand then");
    return;
  }
  e.error("E0509", second.call, "state `{}` is updated twice: its block is called twice", stored.path)
      .here("again here")
      .label(first.call, "first here")
      .label(second.span, "the update")
      .help("give each call an instance of its own: `param first, second : ...`");
}

void metric(Elaboration& e, Frame& frame, const ast::Metric& metric) {
  const Term term = expression(e, frame, *metric.value);
  ValueId value = tensor_of(e, term, metric.value->span);
  if (!value) return;
  const ValueType type = e.type(value);
  if (!type.dims.empty() || type.index_of || type.element == Type::boolean) {
    e.error("E0506", metric.value->span, "metric `{}` must be one number", metric.name.text)
        .here(describe(e, term))
        .help("reduce it: `mean[...](x)`");
    return;
  }
  // Of whole numbers f64 has each up to 2^53.
  value = e.build.cast(value, is_float(type.element) ? type.element : Type::f64);
  for (const Metric& known : e.graph.metrics) {
    if (known.name != metric.name.text) continue;
    e.error("E0204", metric.name.span, "metric `{}` is declared twice", metric.name.text)
        .label(known.span, "first here");
    return;
  }
  record_name(e, metric.name.text, Term::of(value));
  e.graph.metrics.push_back({metric.name.text, value, metric.name.span});
}

bool is_first_output(Elaboration& e, const ast::Name& name) {
  for (const Output& known : e.graph.outputs) {
    if (known.name != name.text) continue;
    e.error("E0204", name.span, "output `{}` is declared twice", name.text).label(known.span, "first here");
    return false;
  }
  return true;
}

void output(Elaboration& e, Frame& frame, const ast::Name& name, const std::optional<ast::Type>& written) {
  ast::Expr path;
  path.node = ast::Path{{name}, name.span};
  path.span = name.span;
  Term term = expression(e, frame, path);
  const Binding* binding = find_name(frame, name.text);
  const bool stored = binding != nullptr && binding->kind == Binding::Kind::stored;
  if (stored && !term.poisoned()) term = Term::of(value_after(e, binding->stored));
  if (written) {
    const auto type = written_type(e, *frame.dims, *written);
    if (!type) return;
    if (type->rest) {
      e.error("E0310", type->span, "`...` stands for dims that the block's signature does not name");
      return;
    }
    const std::string what = fmt::format("output `{}` is declared", name.text);
    term = as_written(e, term, type->with_rest({}), name.span, type->span, what, false);
  }
  const ValueId value = tensor_of(e, term, name.span);
  if (!value || !is_first_output(e, name)) return;
  if (stored && value == value_after(e, binding->stored))
    e.graph.outputs.push_back({name.text, {}, binding->stored, name.span});
  else e.graph.outputs.push_back({name.text, value, {}, name.span});
}

}  // namespace

void update_statement(Elaboration& e, Frame& frame, const ast::Update& statement) {
  const Binding* state = state_named(e, frame, statement.name);
  const Term term = expression(e, frame, *statement.value);
  if (state == nullptr || !lies_in_all_loops(e, *state, statement.name)) return;
  const Stored& stored = e.graph.stored[state->stored.index];
  ValueType type = stored.type;
  type.dims.erase(type.dims.begin(), type.dims.begin() + static_cast<std::ptrdiff_t>(state->home.size()));
  const std::string what = fmt::format("state `{}` is declared", statement.name.text);
  const Term cast = as_written(e, term, type, statement.value->span, stored.span, what, false);
  if (cast.poisoned() || e.options.purpose.kind != Purpose::Kind::train) return;
  const StateUpdate update{cast.value, statement.name.span, e.calls.empty() ? Span{} : e.calls.back().second};
  const auto [first, fresh] = e.tables.updates.try_emplace(state->stored, update);
  if (!fresh) updated_twice(e, stored, first->second, update);
}

void begin_state(Elaboration& e, Frame& frame, Binding& state, const ast::Expr& initial) {
  if (state.kind != Binding::Kind::stored || !e.graph.stored[state.stored.index].computed) return;
  const Stored stored = e.graph.stored[state.stored.index];
  ValueType type = stored.type;
  type.dims.erase(type.dims.begin(), type.dims.begin() + static_cast<std::ptrdiff_t>(state.home.size()));
  const std::string what = fmt::format("state `{}` is declared", stored.path);
  const Term first = as_written(e, expression(e, frame, initial), type, initial.span, stored.span, what, true, "E0318");
  if (first.poisoned()) {
    state.kind = Binding::Kind::value;
    return;
  }
  const Purpose& purpose = e.options.purpose;
  if (purpose.kind == Purpose::Kind::begin && purpose.state == stored.path)
    e.tables.updates.try_emplace(state.stored, StateUpdate{first.value, initial.span, {}});
}

void collect_updates(Elaboration& e, const Loop& loop, LoopOp& op, Node& node, BodyId outer) {
  for (auto& [stored, update] : e.tables.updates) {
    if (e.graph.value(update.value).body != loop.body) continue;
    ValueType type = e.type(update.value);
    type.dims.insert(type.dims.begin(), loop.dim);
    const ValueId stacked = e.build.argument(type, outer, loop.node);
    op.collects.push_back({update.value, stacked});
    node.results.push_back(stacked);
    update.value = stacked;
  }
}

void finish_updates(Elaboration& e) {
  for (uint32_t i = 0; i < e.graph.stored.size(); ++i) {
    const Stored stored = e.graph.stored[i];
    if (stored.kind != StoredKind::state) continue;
    const auto update = e.tables.updates.find(StoredId{i});
    if (update != e.tables.updates.end()) {
      Value& value = e.graph.value(update->second.value);
      const size_t last = stored.path.rfind('.') == std::string::npos ? 0 : stored.path.rfind('.') + 1;
      if (value.name.empty()) value.name = stored.path.substr(0, last) + "next_" + stored.path.substr(last);
      e.build.span = update->second.span;
      e.build.scope = stored.path.substr(0, last > 0 ? last - 1 : 0);
      e.build.part = Part::update;
      e.build.append(UpdateOp{StoredId{i}}, {update->second.value});
      e.build.part = Part::forward;
    }
    e.build.scope = "";
    record_name(e, stored.path, Term::of(value_after(e, StoredId{i})));
  }
}

ValueId value_after(const Elaboration& e, StoredId stored) {
  const auto update = e.tables.updates.find(stored);
  return update == e.tables.updates.end() ? e.graph.stored[stored.index].value : update->second.value;
}

void results_of_model(Elaboration& e, Frame& frame, const ast::Body& body) {
  frame.ended = true;
  for (const ast::Statement& statement : body) {
    e.build.span = statement.span;
    if (const auto* one = std::get_if<ast::Metric>(&statement.node)) metric(e, frame, *one);
    const auto* port = std::get_if<ast::Port>(&statement.node);
    if (port == nullptr || port->direction != ast::Port::Direction::output) continue;
    for (const ast::Name& name : port->names) output(e, frame, name, port->type);
  }
  frame.ended = false;
}

}  // namespace mesh::elaboration
