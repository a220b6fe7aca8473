#include "codegen/emit/emit_scalar.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/graph/map_function.h"

namespace mesh {

namespace {

constexpr int name_precedence = 10, prefix_precedence = 9;
constexpr size_t long_expression = 84;  // leaves room for the loop and the place that it is stored to

/// How tightly a function binds as it is written in C++: an operator's precedence, or that of a call.
int precedence_of(MapFunction function) {
  using F = MapFunction;
  switch (function) {
    case F::multiply:
    case F::unscale:
    case F::divide:
    case F::reciprocal: return 8;
    case F::add:
    case F::subtract: return 7;
    case F::equal:
    case F::not_equal:
    case F::less:
    case F::less_equal:
    case F::greater:
    case F::greater_equal: return 5;
    case F::logical_and: return 3;
    case F::logical_or: return 2;
    case F::where: return 1;
    case F::logical_not:
    case F::negate: return prefix_precedence;
    default: return name_precedence;
  }
}

bool needs_parentheses(MapFunction outer, size_t operand, int inner, std::string_view text) {
  using F = MapFunction;
  const int own = precedence_of(outer);
  if (own == name_precedence) return false;
  if (outer == F::where) return inner <= own;
  if (own == prefix_precedence) return inner < own || text.starts_with("-");
  // Not to the right of an operator of the same kind: floating point is not associative. Mixed with `&` and `|`,
  // everything else is easier to read, and for gcc to trust, in parentheses.
  if (own <= 5) return inner < 7;
  return operand == 0 && outer != F::reciprocal ? inner < own : inner <= own;
}

std::string noun_for(MapFunction function) {
  using F = MapFunction;
  switch (function) {
    case F::add: return "sum";
    case F::subtract: return "difference";
    case F::multiply:
    case F::unscale: return "product";
    case F::divide: return "ratio";
    case F::negate: return "negative";
    case F::sqrt: return "root";
    case F::where: return "chosen";
    case F::copy: return "same";
    case F::logical_and:
    case F::logical_or:
    case F::logical_not: return "holds";
    default: return std::string(info(function).name) + (precedence_of(function) == name_precedence ? "_value" : "");
  }
}

/// "float{batch * seq}" of a number that counts elements, where the type has it exactly.
std::optional<std::string> count(EmitContext& context, const Scalar::Literal& number, Type type) {
  constexpr double f32_counts_to = 1 << 24;
  if (number.counts.empty() || (type != Type::f64 && (type != Type::f32 || number.value > f32_counts_to))) return {};
  std::string sizes;
  for (const DimId dim : number.counts) sizes += (sizes.empty() ? "" : " * ") + context.names.size(dim);
  return cpp_type(type) + "{" + sizes + "}";
}

}  // namespace

std::string RowNames::reference(const Access& access, size_t pass, Preludes& preludes) {
  NestLoops::Element element = loops_.element(access, pass);
  const std::string& buffer = context_.names.buffer(access.buffer);
  if (const auto place = places_.find(access.buffer); place != places_.end()) element.base = place->second;
  if (context_.names.is_number(access.buffer)) return buffer;
  if (element.row.empty()) return element.base + "[" + (element.index.empty() ? "0" : element.index) + "]";
  std::string row = element.row;
  if (const auto known = names_.find(row); known != names_.end()) {
    row = known->second;
  } else if (!element.index.empty() && element.row_depth > 0 &&
             (loops_.uses(row) > 1 || std::ranges::count(row, '*') > 1)) {
    const bool first = std::ranges::none_of(names_, [](const auto& named) { return named.second == "row"; });
    const std::string name = scope_.fresh(first ? "row" : identifier(buffer) + "_row");
    preludes[element.row_depth].push_back("const int64_t " + name + " = " + row + ";");
    names_[row] = name;
    if (element.row_depth > loops_.outer().size()) own_.push_back(row);
    row = name;
  }
  return element.base + "[" + row + (element.index.empty() ? "" : " + " + element.index) + "]";
}

void RowNames::leave_loops() {
  for (const std::string& row : own_) names_.erase(row);
  own_.clear();
}

ScalarEmitter::ScalarEmitter(EmitContext& context, Scope& scope, const NestLoops& loops, RowNames& row_names,
                             const Nest& nest, size_t pass, const std::vector<std::string>& rows)
    : context_(context),
      scope_(scope),
      loops_(loops),
      row_names_(row_names),
      pass_(nest.passes[pass]),
      index_(pass),
      innermost_(loops.around(pass).size()),
      rows_(rows),
      written_(pass_.scalars.size()) {
  for (const Scalar& scalar : pass_.scalars) depths_.push_back(depth_of(scalar));
}

size_t ScalarEmitter::depth_of(const Scalar& scalar) const {
  if (const auto* load = std::get_if<Scalar::Load>(&scalar.what))
    return loops_.writes(load->access.buffer) ? innermost_ : loops_.element(load->access, index_).depth;
  if (const auto* index = std::get_if<Scalar::Index>(&scalar.what)) return loops_.depth_of(index->dim, index_);
  if (const auto* random = std::get_if<Scalar::Random>(&scalar.what)) {
    size_t depth = 0;
    for (const auto& [dim, turn] : random->dims)
      if (!turn) depth = std::max(depth, loops_.depth_of(dim, index_));
    return depth;
  }
  if (std::holds_alternative<Scalar::Row>(scalar.what)) return loops_.outer().size();
  size_t depth = 0;
  if (const auto* apply = std::get_if<Scalar::Apply>(&scalar.what))
    for (const int operand : apply->operands) depth = std::max(depth, depths_[static_cast<size_t>(operand)]);
  return depth;
}

void ScalarEmitter::generate(const std::vector<int>& targets, Preludes& preludes) {
  // Uses, and the deepest place of use, of every scalar that the targets need.
  std::vector<int> uses(pass_.scalars.size(), 0);
  std::vector<size_t> used_at(pass_.scalars.size(), 0);
  for (const int target : targets) {
    ++uses[static_cast<size_t>(target)];
    used_at[static_cast<size_t>(target)] = innermost_;
  }
  for (size_t i = pass_.scalars.size(); i-- > 0;) {
    const auto* apply = std::get_if<Scalar::Apply>(&pass_.scalars[i].what);
    if (uses[i] == 0 || apply == nullptr) continue;
    for (const int operand : apply->operands) {
      const auto at = static_cast<size_t>(operand);
      ++uses[at];
      used_at[at] = std::max(used_at[at], depths_[i]);
    }
  }
  const std::set<int> overwritten = overwritten_loads(uses, used_at);
  for (size_t i = 0; i < pass_.scalars.size(); ++i) {
    if (uses[i] == 0 || written_[i].named) continue;
    written_[i] = write(static_cast<int>(i), preludes);
    const auto& what = pass_.scalars[i].what;
    const auto* load = std::get_if<Scalar::Load>(&what);
    const bool early = depths_[i] < used_at[i];
    const bool in_place = overwritten.contains(static_cast<int>(i));
    // A choice reads better by a name than within a sum.
    const bool choice = load != nullptr && written_[i].precedence == precedence_of(MapFunction::where) &&
                        std::ranges::find(targets, static_cast<int>(i)) == targets.end();
    const bool computed = std::holds_alternative<Scalar::Apply>(what) || std::holds_alternative<Scalar::Random>(what);
    const bool asked = std::holds_alternative<Scalar::Rate>(what) || std::holds_alternative<Scalar::Index>(what);
    if (in_place || choice || (computed && (early || uses[i] > 1)) || (load != nullptr && (early || uses[i] > 2)) ||
        (asked && early))
      bind(static_cast<int>(i), preludes);
  }
}

/// Loads of what an earlier store of the same iteration may overwrite: they must be read before it.
std::set<int> ScalarEmitter::overwritten_loads(const std::vector<int>& uses, const std::vector<size_t>& used_at) const {
  std::set<int> loads;
  std::vector<BufferId> written;
  const auto look = [&](const auto& self, int scalar, bool target) -> void {
    const auto at = static_cast<size_t>(scalar);
    if (const auto* load = std::get_if<Scalar::Load>(&pass_.scalars[at].what))
      if (std::ranges::any_of(written, [&](BufferId id) { return loops_.share_bytes(id, load->access.buffer); }))
        loads.insert(scalar);
    const auto* apply = std::get_if<Scalar::Apply>(&pass_.scalars[at].what);
    // What has a name is computed before all stores.
    if (apply == nullptr || (!target && (uses[at] > 1 || depths_[at] < used_at[at])) || (target && uses[at] > 1))
      return;
    for (const int operand : apply->operands) self(self, operand, false);
  };
  for (const Pass::Store& store : pass_.stores) {
    look(look, store.scalar, true);
    written.push_back(store.to.buffer);
  }
  for (const Pass::Accumulate& one : pass_.accumulates) {
    look(look, one.scalar, true);
    written.push_back(one.to.buffer);
  }
  for (const Pass::Reduction& one : pass_.reductions) look(look, one.scalar, true);  // reduced after the stores
  return loads;
}

void ScalarEmitter::bind(int scalar, Preludes& preludes) {
  const auto at = static_cast<size_t>(scalar);
  Expression& expression = written_[at];
  if (expression.named || std::holds_alternative<Scalar::Literal>(pass_.scalars[at].what)) return;
  // What is declared around the pass's own loops is there for the other passes too.
  const bool shared = depths_[at] <= loops_.outer().size();
  if (const std::string* known = shared ? scope_.constant(expression.text) : nullptr) {
    expression = {*known, name_precedence, expression.constant, true};
    return;
  }
  const std::string name = scope_.fresh(name_for(scalar), depths_[at] == 0);
  preludes[depths_[at]].push_back("const " + cpp_type(pass_.scalars[at].type) + " " + name + " = " + expression.text +
                                  ";");
  if (shared) scope_.remember_constant(expression.text, name, expression.constant && depths_[at] == 0);
  expression = {name, name_precedence, expression.constant, true};
}

std::string ScalarEmitter::name_for(int scalar) const {
  for (const Pass::Store& store : pass_.stores)
    if (store.scalar == scalar) return "new_" + identifier(context_.names.buffer(store.to.buffer));
  const Scalar& one = pass_.scalars[static_cast<size_t>(scalar)];
  if (const auto* load = std::get_if<Scalar::Load>(&one.what))
    return "this_" + identifier(context_.names.buffer(load->access.buffer));
  if (std::holds_alternative<Scalar::Rate>(one.what)) return "learning_rate";
  if (const auto* random = std::get_if<Scalar::Random>(&one.what))
    return identifier(random->path.substr(random->path.rfind('.') + 1) + "_draw");
  if (const auto* index = std::get_if<Scalar::Index>(&one.what))
    return identifier(context_.graph().dim(index->dim).name + "_position");
  if (const auto* apply = std::get_if<Scalar::Apply>(&one.what)) {
    if (apply->function != MapFunction::cast) return noun_for(apply->function);
    const Expression& operand = written_[static_cast<size_t>(apply->operands.front())];
    const std::string of = operand.named ? operand.text : name_for(apply->operands.front());
    return of + "_" + (one.type == Type::boolean ? "true" : meshrt::name_of(one.type));
  }
  return "value";
}

ScalarEmitter::Expression ScalarEmitter::write(int scalar, Preludes& preludes) {
  const Scalar& one = pass_.scalars[static_cast<size_t>(scalar)];
  if (const auto* load = std::get_if<Scalar::Load>(&one.what)) {
    const std::string element = row_names_.reference(load->access, index_, preludes);
    const std::string there = loops_.condition(load->access, index_);
    if (there.empty()) return {element, name_precedence};
    const auto missing =
        std::ranges::find_if(load->access.maps, [](const IndexMap& map) { return map.outside.has_value(); });
    std::string other = literal(*missing->outside, one.type);
    if (one.type == Type::u8) other = "uint8_t{" + other + "}";
    return {there + " ? " + element + " : " + other, precedence_of(MapFunction::where)};
  }
  if (const auto* number = std::get_if<Scalar::Literal>(&one.what)) {
    const std::string text = count(context_, *number, one.type).value_or(literal(number->value, one.type));
    return {text, text.starts_with("-") ? prefix_precedence : name_precedence, true};
  }
  if (const auto* index = std::get_if<Scalar::Index>(&one.what)) {
    const std::string& variable = context_.names.index(index->dim);
    const LocalDim& along = loops_.local(index->dim, index_);
    if (along.placement.deal && !along.placement.axes.empty())
      return {fmt::format("static_cast<int32_t>({}[{}])", context_.names.indices(along), variable), name_precedence};
    const std::string begin = context_.names.begin(along);
    return {"static_cast<int32_t>(" + (begin == "0" ? "" : begin + " + ") + variable + ")", name_precedence};
  }
  if (const auto* turn = std::get_if<Scalar::Turn>(&one.what))
    return {"static_cast<int32_t>(" + context_.names.turn(turn->loop) + ")", name_precedence};
  if (std::holds_alternative<Scalar::StepNumber>(one.what))
    return {"static_cast<double>(step.step)", name_precedence, true};
  if (const auto* rate = std::get_if<Scalar::Rate>(&one.what))
    return {context_.rate(rate->rate) + "()", name_precedence, true};
  if (const auto* random = std::get_if<Scalar::Random>(&one.what))
    return {draw(*random, one.type, preludes), name_precedence, random->dims.empty() && random->turns.empty()};
  if (const auto* row = std::get_if<Scalar::Row>(&one.what))
    return {rows_[static_cast<size_t>(row->row)], name_precedence, false, true};
  return apply(one, std::get<Scalar::Apply>(one.what), preludes);
}

/// `meshrt::uniform<float>(dropout_key, b * embed + e)`: the key is made before all loops.
std::string ScalarEmitter::draw(const Scalar::Random& random, Type type, Preludes& preludes) {
  std::string key = fmt::format("meshrt::RandomKey(step.seed, {}).at(step.step)", string_literal(random.path));
  for (const auto& terms : random.turns) {
    std::string turn;
    for (const auto& [loop, times] : terms)
      turn += (turn.empty() ? "" : " + ") + (times == 1 ? "" : fmt::format("{} * ", times)) + context_.names.turn(loop);
    key += ".at(" + turn + ")";
  }
  if (random.of_sample > 0) key += fmt::format(", step, {}", random.of_sample);
  const std::string* known = scope_.constant(key);
  std::string name = known != nullptr ? *known : "";
  if (name.empty()) {
    name = scope_.fresh(identifier(random.path.substr(random.path.rfind('.') + 1) + "_key"), true);
    preludes[0].push_back(random.of_sample > 0 ? "const meshrt::SampleKey " + name + "(" + key + ");"
                                               : "const meshrt::RandomKey " + name + " = " + key + ";");
    scope_.remember_constant(key, name, random.turns.empty());
  }
  std::vector<std::pair<std::string, std::string>> indices;
  for (const auto& [dim, turn] : random.dims) {
    if (turn) {
      indices.emplace_back(context_.names.turn(*turn), context_.names.size(dim));
      continue;
    }
    const LocalDim& along = loops_.local(dim, index_);
    const std::string& index = context_.names.index(dim);
    if (along.placement.deal && !along.placement.axes.empty()) {
      indices.emplace_back(fmt::format("{}[{}]", context_.names.indices(along), index), context_.names.size(dim));
      continue;
    }
    const std::string begin = context_.names.begin(along);
    indices.emplace_back(begin == "0" ? index : fmt::format("{} + {}", begin, index), context_.names.size(dim));
  }
  return fmt::format("meshrt::{}<{}>({}, {})", name_of(random.distribution), cpp_type(type), name,
                     indices.empty() ? "0" : horner(indices));
}

ScalarEmitter::Expression ScalarEmitter::apply(const Scalar& scalar, const Scalar::Apply& apply, Preludes& preludes) {
  Expression expression = compose(scalar, apply);
  while (expression.text.size() > long_expression) {
    // The longest operand gets a name.
    int longest = -1;
    for (const int operand : apply.operands) {
      const Expression& candidate = written_[static_cast<size_t>(operand)];
      const auto& what = pass_.scalars[static_cast<size_t>(operand)].what;
      const bool worth_it = std::holds_alternative<Scalar::Apply>(what) ||
                            std::holds_alternative<Scalar::Random>(what) ||
                            (std::holds_alternative<Scalar::Load>(what) && candidate.text.size() > long_expression / 2);
      const bool nameable = !candidate.named && worth_it;
      if (nameable && (longest < 0 || candidate.text.size() > text(longest).size())) longest = operand;
    }
    if (longest < 0) break;
    bind(longest, preludes);
    expression = compose(scalar, apply);
  }
  return expression;
}

/// Whether `a ? b : c` would read or compute in a branch, which keeps a loop from becoming vector instructions.
bool ScalarEmitter::chooses_computed(const Scalar& scalar, const Scalar::Apply& apply) const {
  if (!pass_.reductions.empty()) return false;  // sums in lanes are written as they read best
  const auto computed = [&](int operand) {
    return !written_[static_cast<size_t>(operand)].named &&
           !std::holds_alternative<Scalar::Literal>(pass_.scalars[static_cast<size_t>(operand)].what);
  };
  return (scalar.type == Type::f32 || scalar.type == Type::f64) &&
         (computed(apply.operands[1]) || computed(apply.operands[2]));
}

ScalarEmitter::Expression ScalarEmitter::compose(const Scalar& scalar, const Scalar::Apply& apply) const {
  const MapFunctionInfo& function = info(apply.function);
  const std::string type = cpp_type(scalar.type);
  Expression result{"", precedence_of(apply.function), true};
  for (const int operand : apply.operands) result.constant &= written_[static_cast<size_t>(operand)].constant;
  const auto first = static_cast<size_t>(apply.operands.front());
  const bool nothing = apply.function == MapFunction::copy ||
                       (apply.function == MapFunction::cast && pass_.scalars[first].type == scalar.type);
  if (nothing) return written_[first];
  if (apply.function == MapFunction::cast && scalar.type == Type::f32 && pass_.scalars[first].type == Type::f64)
    return {"meshrt::rounded(" + written_[first].text + ")", name_precedence, result.constant};
  if (apply.function == MapFunction::cast && is_narrow(scalar.type))
    return {type + "(" + written_[first].text + ")", name_precedence, result.constant};
  const bool selects = apply.function == MapFunction::where && chooses_computed(scalar, apply);
  const std::string_view pattern = selects ? "meshrt::where<$type>($0, $1, $2)" : function.cpp;
  if (selects) result.precedence = name_precedence;
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '$') {
      result.text += pattern[at];
      continue;
    }
    if (pattern.substr(at).starts_with("$type")) {
      result.text += type;
      at += 4;
      continue;
    }
    const auto operand = static_cast<size_t>(pattern[++at] - '0');
    const Expression& inner = written_[static_cast<size_t>(apply.operands[operand])];
    const bool wrap = !selects && needs_parentheses(apply.function, operand, inner.precedence, inner.text);
    result.text += wrap ? "(" + inner.text + ")" : inner.text;
  }
  // Arithmetic on a narrow integer is done in int.
  if (scalar.type == Type::u8 && apply.function != MapFunction::cast) {
    result.text = "static_cast<" + type + ">(" + result.text + ")";
    result.precedence = name_precedence;
  }
  return result;
}

}  // namespace mesh
