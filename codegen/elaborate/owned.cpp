// What bodies own: local dims, inputs, parameters with their initial values, and instances of blocks.
#include <algorithm>
#include <utility>

#include "codegen/elaborate/blocks.h"
#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/initial.h"
#include "codegen/elaborate/recursion.h"
#include "codegen/elaborate/terms.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

bool owns(const Elaboration& e, const ast::Body& body, std::vector<const ast::Block*>& seen);

bool owns(const Elaboration& e, const ast::Block& block, std::vector<const ast::Block*>& seen) {
  if (std::find(seen.begin(), seen.end(), &block) != seen.end()) return false;
  seen.push_back(&block);
  return owns(e, block.body, seen);
}

bool owns(const Elaboration& e, const ast::Expr& expr, std::vector<const ast::Block*>& seen) {
  const auto any = [&](const ast::ExprPtr& inner) { return inner != nullptr && owns(e, *inner, seen); };
  if (const auto* call = ast::as<ast::Call>(expr)) {
    const auto block = e.declared.blocks.find(call->callee.text());
    if (block != e.declared.blocks.end() && owns(e, *block->second, seen)) return true;
    return std::any_of(call->arguments.begin(), call->arguments.end(), [&](const auto& a) { return any(a.value); });
  }
  if (const auto* index = ast::as<ast::Index>(expr)) return any(index->value);
  if (const auto* cast = ast::as<ast::Cast>(expr)) return any(cast->value);
  if (const auto* unary = ast::as<ast::Unary>(expr)) return any(unary->operand);
  if (const auto* binary = ast::as<ast::Binary>(expr)) return any(binary->left) || any(binary->right);
  if (const auto* compare = ast::as<ast::Compare>(expr)) return any(compare->left) || any(compare->right);
  if (const auto* logical = ast::as<ast::Logical>(expr)) return any(logical->left) || any(logical->right);
  if (const auto* group = ast::as<ast::Group>(expr))
    return std::any_of(group->values.begin(), group->values.end(), any);
  return false;
}

bool owns(const Elaboration& e, const ast::Body& body, std::vector<const ast::Block*>& seen) {
  for (const ast::Statement& statement : body) {
    if (std::holds_alternative<ast::Parameter>(statement.node) || std::holds_alternative<ast::State>(statement.node))
      return true;
    if (const auto* repeat = std::get_if<ast::Repeat>(&statement.node);
        repeat != nullptr &&
        (owns(e, repeat->body, seen) || (repeat->until != nullptr && owns(e, *repeat->until, seen))))
      return true;
    if (const auto* manual = std::get_if<ast::Manual>(&statement.node);
        manual != nullptr && owns(e, manual->body, seen))
      return true;
    if (const auto* bind = std::get_if<ast::Bind>(&statement.node); bind != nullptr && owns(e, *bind->value, seen))
      return true;
    if (const auto* results = std::get_if<ast::Return>(&statement.node))
      for (const ast::ExprPtr& value : results->values)
        if (owns(e, *value, seen)) return true;
  }
  return false;
}

/// E0204 where something else has the path already.
bool path_is_free(Elaboration& e, const std::string& path, Span span) {
  Span first;
  if (const auto stored = e.tables.stored.find(path); stored != e.tables.stored.end())
    first = e.graph.stored[stored->second.index].span;
  else if (e.tables.instances.count(path) == 0) return true;
  auto report = e.error("E0204", span, "`{}` is declared twice", path);
  report.here("again here").label(first, "first here");
  if (path.find('.') != std::string::npos)
    report.help("two loops over one dim need names of their own: `repeat layer as decoder { ... }`");
  return false;
}

void declare_stored(Elaboration& e, DimScope& scope, const std::string& path, StoredKind kind, const ast::Name& name,
                    const WrittenType& written, const meshrt::Initial& initial, const std::vector<DimId>& loops) {
  const std::string full = join(path, name.text);
  if (written.rest && !scope.rest) {
    e.error("E0310", written.span, "`...` has no meaning in the type of `{}`", name.text)
        .here("what a body owns has the same dims at every call");
    return;
  }
  ValueType type = written.with_rest(scope.rest.value_or(std::vector<DimId>{}));
  for (DimId loop : loops) {
    if (!contains(type.dims, loop)) continue;
    e.error("E0312", written.span, "`{}` would have dim `{}` twice", name.text, e.name(loop))
        .here("the `repeat` around it adds `{}`", e.name(loop));
    return;
  }
  type.dims.insert(type.dims.begin(), loops.begin(), loops.end());
  if (!path_is_free(e, full, name.span)) return;
  e.build.span = name.span;
  const std::string outer_scope = std::exchange(e.build.scope, path);
  const StoredId id = e.build.stored(kind, full, type, initial);
  e.build.scope = outer_scope;
  e.graph.stored[id.index].stacked = loops.size();
  e.tables.stored[full] = id;
}

void declare_instance(Elaboration& e, DimScope& scope, const std::string& path, const ast::Parameter& parameter,
                      const ast::Block& block, const std::vector<DimId>& loops) {
  std::vector<DimArgument> arguments;
  for (const ast::Slot& slot : parameter.type.slots) {
    if (slot.rest) {
      e.error("E0216", slot.span, "`...` binds no dim of block `{}`", block.name.text)
          .label(block.head, "declared here")
          .help("name a dim for each of its parameters; what `...` stands for is found at each call");
      return;
    }
    if (slot.value) arguments.push_back({slot.dim, *slot.value});
    else arguments.push_back({{}, slot.dim});
  }
  const auto bound = bind_dims(e, scope, block, arguments, parameter.type.span);
  if (!bound) return;
  for (const ast::Name& name : parameter.names) {
    const std::string full = join(path, name.text);
    if (!path_is_free(e, full, name.span)) continue;
    const Inlining inlining(e, block, parameter.type.span);
    if (!inlining.legal) return;
    if (is_too_large(
            e, {e.owned_instances.size(), "instances of blocks", "every instance has those of its block for itself"},
            parameter.type.span))
      return;
    Instance& instance = e.owned_instances.emplace_back(Instance{&block, full, *bound});
    e.tables.instances[full] = &instance;
    declare_body(e, instance.dims, full, block.body, loops);
  }
}

bool can_hold(const Elaboration& e, const WrittenType& type, const meshrt::Initial& initial, bool truth) {
  using Kind = meshrt::Initial::Kind;
  const bool any_type = initial.kind == Kind::zeros || initial.kind == Kind::ones;
  if (truth || type.element == Type::boolean) return any_type || truth == (type.element == Type::boolean);
  if (is_float(type.element)) {  // what f16 rounds to infinity is told when a run begins
    const Type widest = type.element == Type::f64 ? Type::f64 : Type::f32;
    return holds(widest, initial.a) && holds(widest, initial.b);
  }
  if (!any_type && initial.kind != Kind::constant) return false;
  const double number = initial.kind == Kind::zeros ? 0 : initial.kind == Kind::ones ? 1 : initial.a;
  return holds(type.element, number) &&
         (!type.index_of || (number >= 0 && number < static_cast<double>(e.size(type.index_of))));
}

/// E0318 for an initial value that the type cannot hold.
bool fits(Elaboration& e, const WrittenType& type, const meshrt::Initial& initial, const ast::Expr& expr) {
  const bool truth = ast::as<ast::Bool>(ast::without_parentheses(expr)) != nullptr;
  if (can_hold(e, type, initial, truth)) return true;
  e.error("E0318", expr.span, "`{}` is no initial value of {}", e.sources.text(expr.span),
          to_string(e.graph, ValueType{type.element, type.index_of, {}}))
      .label(type.span, "declared here");
  return false;
}

void declare_parameter(Elaboration& e, DimScope& scope, const std::string& path, const ast::Parameter& parameter,
                       const std::vector<DimId>& loops) {
  const auto block = e.declared.blocks.find(parameter.type.element.text);
  if (block != e.declared.blocks.end()) {
    if (parameter.initial != nullptr)
      e.error("E0318", parameter.initial->span, "an instance of block `{}` has no initial value", block->first)
          .help("the block's own parameters have theirs");
    declare_instance(e, scope, path, parameter, *block->second, loops);
    return;
  }
  if (parameter.initial == nullptr) {
    const std::string& name = parameter.type.element.text;
    if (parameter.type.index_of || element_named(e, name)) {
      e.error("E0318", parameter.type.span, "parameter `{}` has no initial value", parameter.names[0].text)
          .help("`= zeros`, `= fan_in[dim]` or `= normal(std: 0.02)` gives it one");
      return;
    }
    auto report = e.error("E0203", parameter.type.element.span, "unknown block `{}`", name);
    std::vector<std::string> blocks;
    for (const auto& [known, declared] : e.declared.blocks) blocks.push_back(known);
    if (const auto near = did_you_mean(name, blocks)) report.here("did you mean `{}`?", *near);
    else if (blocks.empty() || e.declared.blocks.count("layer_norm") == 0)
      report.help("`import std.nn` brings layer_norm, rms_norm, linear, feed_forward and sinusoid");
    return;
  }
  const auto written = written_type(e, scope, parameter.type);
  const auto initial = initial_value(e, scope, *parameter.initial);
  if (!written || !initial) return;
  if (!is_float(written->element)) {
    e.error("E0318", parameter.type.span, "a parameter must be of floats").help("`real[...]` is the usual type");
    return;
  }
  if (!fits(e, *written, *initial, *parameter.initial)) return;
  for (const ast::Name& name : parameter.names)
    declare_stored(e, scope, path, StoredKind::parameter, name, *written, *initial, loops);
}

/// The type of a state that is written without: that of the parameter or state that it begins as. E0318.
std::optional<WrittenType> type_of_initial(Elaboration& e, const std::string& path, const ast::State& state) {
  const auto* name = ast::as<ast::Path>(*state.initial);
  const auto known = name == nullptr ? e.tables.stored.end() : e.tables.stored.find(join(path, name->text()));
  if (known == e.tables.stored.end()) {
    e.error("E0318", state.names.front().span, "state `{}` needs a type", state.names.front().text)
        .help(fmt::format("`state {} : real[...] = {}`; one that begins as a parameter has the type of that",
                          state.names.front().text, e.sources.text(state.initial->span)));
    return {};
  }
  const Stored& of = e.graph.stored[known->second.index];
  const auto own = of.type.dims.begin() + static_cast<std::ptrdiff_t>(of.stacked);
  return WrittenType{of.type.element, of.type.index_of, {own, of.type.dims.end()}, false, 0, state.names.front().span};
}

void declare_states(Elaboration& e, DimScope& scope, const std::string& path, const ast::State& state,
                    const std::vector<DimId>& loops) {
  const auto written = state.type ? written_type(e, scope, *state.type) : type_of_initial(e, path, state);
  const bool computed = is_computed(e, path, *state.initial);
  const auto initial = computed ? meshrt::Initial{} : initial_value(e, scope, *state.initial);
  if (!written || !initial || (!computed && !fits(e, *written, *initial, *state.initial))) return;
  for (const ast::Name& name : state.names) {
    declare_stored(e, scope, path, StoredKind::state, name, *written, *initial, loops);
    if (const auto state_of = e.tables.stored.find(join(path, name.text)); state_of != e.tables.stored.end())
      e.graph.stored[state_of->second.index].computed = computed;
  }
}

void declare_inputs(Elaboration& e, DimScope& scope, const std::string& path, const ast::Port& port, Span span,
                    const std::vector<DimId>& loops) {
  if (port.direction == ast::Port::Direction::output) return;
  if (!path.empty() || !loops.empty()) {
    e.error("E0317", span, "an input belongs to the model itself")
        .help("a block takes arguments: `block f(x : real[d])`");
    return;
  }
  const auto written = written_type(e, scope, *port.type);
  if (!written) return;
  for (const ast::Name& name : port.names) declare_stored(e, scope, path, StoredKind::input, name, *written, {}, loops);
}

}  // namespace

bool owns_parameters(const Elaboration& e, const ast::Block& block) {
  std::vector<const ast::Block*> seen;
  return owns(e, block, seen);
}

void declare_body(Elaboration& e, DimScope& scope, const std::string& path, const ast::Body& body,
                  const std::vector<DimId>& loops) {
  // A body's dims are known in all of it, as those of a file are.
  declare_local(e, scope, body);
  for (const ast::Statement& statement : body) {
    if (const auto* port = std::get_if<ast::Port>(&statement.node)) {
      declare_inputs(e, scope, path, *port, statement.span, loops);
    } else if (const auto* parameter = std::get_if<ast::Parameter>(&statement.node)) {
      declare_parameter(e, scope, path, *parameter, loops);
      for (const ast::Name& name : parameter->names) {
        const std::string full = join(path, name.text);
        if (e.tables.stored.count(full) + e.tables.instances.count(full) == 0) e.lacks_parameters = true;
      }
    } else if (const auto* state = std::get_if<ast::State>(&statement.node)) {
      declare_states(e, scope, path, *state, loops);
    } else if (const auto* repeat = std::get_if<ast::Repeat>(&statement.node)) {
      const DimId dim = find_dim(e, scope, repeat->dim.text);
      if (!dim || contains(loops, dim)) {  // reported where the loop is written
        e.lacks_parameters = true;
        continue;
      }
      std::vector<DimId> inner = loops;
      inner.push_back(dim);
      const ast::Name& label = repeat->label ? *repeat->label : repeat->dim;
      declare_body(e, scope, join(path, label.text), repeat->body, inner);
    }
  }
}

}  // namespace mesh::elaboration
