#include "codegen/emit/emit_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codegen/emit/emit_parts.h"
#include "codegen/graph/builder.h"
#include "codegen/program/extent.h"

namespace mesh {

std::string Scope::fresh(const std::string& wanted, bool lasting) {
  std::string name = wanted;
  for (int number = 2; names_.taken(name) || used_.contains(name); ++number)
    name = wanted + "_" + std::to_string(number);
  used_.insert(name);
  if (lasting && around_ != nullptr) around_->used_.insert(name);
  return name;
}

void Scope::remember_constant(const std::string& text, const std::string& name, bool lasting) {
  constants_[text] = name;
  if (lasting && around_ != nullptr) around_->constants_[text] = name;
}

const std::string* Scope::constant(const std::string& text) const {
  const auto found = constants_.find(text);
  return found == constants_.end() ? nullptr : &found->second;
}

int EmitContext::site(Span span) {
  const auto found = std::ranges::find(sites, span);
  if (found != sites.end()) return static_cast<int>(found - sites.begin());
  sites.push_back(span);
  return static_cast<int>(sites.size()) - 1;
}

std::string EmitContext::group(const std::vector<AxisId>& axes, const Where* some) {
  const std::vector<int> indices = some ? indices_at(mesh(), axes, *some) : std::vector<int>{};
  for (const EmittedGroup& known : groups)
    if (known.axes == axes && known.indices == indices) return known.name;
  std::string name = "over";
  for (const AxisId axis : axes) name += "_" + identifier(mesh().axes[axis].name);
  if (some) name += fmt::format("_at_{}", fmt::join(some->coordinates, "_"));
  groups.push_back({names.reserve(name), axes, indices});
  return groups.back().name;
}

std::string EmitContext::constant(const std::string& type, const std::string& name, const std::string& value) {
  const auto declared = [&](const std::string& as) { return fmt::format("const {} {} = {}", type, as, value); };
  for (const auto& [known, declaration] : constants)
    if (declaration == declared(known)) return known;
  std::string reserved = names.reserve(name);
  constants.emplace_back(reserved, declared(reserved));
  return reserved;
}

const std::string& EmitContext::rate(const RateOp& op) {
  for (const auto& [known, name] : rates)
    if (known == op) return name;
  return rates.emplace_back(op, rates.empty() ? "rate" : names.reserve("rate_" + std::to_string(rates.size() + 1)))
      .second;
}

std::string EmitContext::origin(Span span) const {
  return span.known() ? fmt::format("{}:{}", sources.file_name(span), sources.begin(span).line) : "";
}

std::string EmitContext::statement(Span span) const {
  if (!span.known()) return "";
  std::string text(sources.line_text(span.file, sources.begin(span).line));
  if (const size_t comment = text.find("//"); comment != std::string::npos) text.erase(comment);
  std::string joined;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\t' || c == '\r';
    if (!space || (!joined.empty() && joined.back() != ' ')) joined += space ? ' ' : c;
  }
  while (joined.ends_with(' ') || joined.ends_with('{')) joined.pop_back();
  return joined;
}

std::string literal(double value, Type type) {
  const std::string cpp = cpp_type(type);
  switch (type) {
    case Type::boolean: return value != 0 ? "true" : "false";
    case Type::i32:
    case Type::i64:
    case Type::u8:
      if (std::isinf(value) || value == (type == Type::i32 ? -0x1p31 : -0x1p63))  // no literal is so small
        return fmt::format("std::numeric_limits<{}>::{}()", cpp, value > 0 ? "max" : "lowest");
      if (type == Type::i32) return fmt::format("{}", static_cast<int64_t>(value));
      return fmt::format("{}({})", cpp, static_cast<int64_t>(value));  // for functions that take two of one type
    case Type::f32:
    case Type::f64: break;
    case Type::bf16:
    case Type::f16: return cpp + "(" + literal(value, Type::f32) + ")";
  }
  if (type == Type::f32) value = static_cast<float>(value);
  if (std::isnan(value)) return fmt::format("std::numeric_limits<{}>::quiet_NaN()", cpp);
  if (std::isinf(value)) return fmt::format("{}std::numeric_limits<{}>::infinity()", value < 0 ? "-" : "", cpp);
  std::string text = type == Type::f32 ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + (type == Type::f32 ? "f" : "");
}

std::string horner(const std::vector<std::pair<std::string, std::string>>& indices_and_extents,
                   const std::string& scale) {
  std::string sum;
  bool is_sum = false;  // not in parentheses
  const auto times = [&](const std::string& factor) {
    if (factor == "1") return;
    sum = (is_sum ? "(" + sum + ")" : sum) + " * " + factor;
    is_sum = false;
  };
  for (const auto& [index, extent] : indices_and_extents) {
    if (sum.empty() || sum == "0") {
      sum = index;
      is_sum = index.find(" + ") != std::string::npos && index.front() != '(';
      continue;
    }
    times(extent);
    if (index == "0") continue;
    sum += " + " + index;
    is_sum = true;
  }
  if (sum == "0") sum.clear();
  if (!scale.empty() && !sum.empty()) times(scale);
  return sum;
}

std::string slot(EmitContext& context, const Access& access, const FixedDim& fixed) {
  const TurnIndex& turn = fixed.turn;
  if (!turn.loop) return std::to_string(turn.offset);
  std::string text = in_parentheses(context.turn(turn.loop));
  const LocalDim& local = context.program.buffer(access.buffer).dims[fixed.position];
  const bool split = !local.placement.axes.empty();
  const auto known = context.slots.find(turn.loop);
  if (known != context.slots.end() && turn.offset == 0 && known->second == turn.period && split == (turn.period == 0))
    return context.names.turn_slot(turn.loop);
  if (split) return fmt::format("{}.slot({})", owners(context, local.dim, local.placement), text);
  if (turn.period == 1) return "0";
  if (turn.offset > 0) text = fmt::format("({} + {})", text, turn.offset);
  if (turn.period == 0) return text;
  return text + " % " + context.names.extent(local);
}

const std::string& EmitContext::turn(LoopId loop) const {
  const auto other = other_turns.find(loop);
  return other == other_turns.end() ? names.turn(loop) : other->second;
}

OfItsTurn::OfItsTurn(EmitContext& context, std::span<const CollectiveStep> call) : context_(context) {
  if (call.empty()) return;
  if (const LoopId last = call.front().last_turn)
    where =
        fmt::format("if ({} + 1 == {}) ", context.names.turn(last), context.names.size(context.names.loop_dim(last)));
  if (!call.front().other_turn) return;
  loop_ = call.front().other_turn->loop;
  const std::string turn = context.names.turn(loop_);
  const bool later = call.front().other_turn->away > 0;
  where = later ? fmt::format("if ({} + 1 < {}) ", turn, context.names.size(context.names.loop_dim(loop_)))
                : fmt::format("if ({} > 0) ", turn);
  context.other_turns[loop_] = turn + (later ? " + 1" : " - 1");
}

OfItsTurn::~OfItsTurn() {
  if (loop_) context_.other_turns.erase(loop_);
}

const std::string& owners(EmitContext& context, DimId dim, const DimPlacement& split) {
  const std::string size = context.names.size(dim);
  const std::string deal = split.deal ? ", " + deal_expression(split.deal) : "";
  std::string& name = context.owners[fmt::format("{}, {}, {}{}", size, part_index(context, split),
                                                 in_parentheses(parts_text(context, split)), deal)];
  if (name.empty()) {
    name = size + "_over";
    for (const AxisId axis : split.axes) name += "_" + identifier(context.mesh().axes[axis].name);
    name = context.names.reserve(name);
  }
  return name;
}

const std::string& turns_of_stages(EmitContext& context, DimId dim) {
  std::string& name = context.turns_of_stages[dim];
  if (name.empty()) name = context.names.reserve(context.names.size(dim) + "_of_stage");
  return name;
}

std::string coordinate(EmitContext& context, const Where& where) {
  if (!where.owner) return std::to_string(where.coordinates.front());
  const TurnOwner& owner = where.owner;
  std::string text =
      fmt::format("{}.owner({})", owners(context, owner.dim, {owner.axes, owner.deal}), context.names.index(owner.dim));
  const auto axis = std::ranges::find(owner.axes, where.axis);
  for (auto inner = axis + 1; inner != owner.axes.end(); ++inner) text += " / " + context.names.axis(*inner) + ".size";
  return axis == owner.axes.begin() ? text : text + " % " + context.names.axis(where.axis) + ".size";
}

std::string address(EmitContext& context, const Access& access) {
  const Buffer& buffer = context.program.buffer(access.buffer);
  const std::string& name = context.names.buffer(access.buffer);
  if (context.names.is_number(access.buffer)) return "&" + name;
  if (context.names.stack_depth(access.buffer) > 0) {
    std::string text = access.turns.empty() ? name + ".all" : name;
    for (size_t k = 0; k < access.turns.size(); ++k) text += "[" + slot(context, access, {k, access.turns[k]}) + "]";
    return text;
  }
  if (access.turns.empty()) return name;
  std::vector<std::pair<std::string, std::string>> turns;
  for (size_t k = 0; k < access.turns.size(); ++k)
    turns.emplace_back(slot(context, access, {k, access.turns[k]}), context.names.extent(buffer.dims[k]));
  const std::string from = horner(turns, elements(context, access));  // nothing for the first slot
  return from.empty() ? name : name + " + " + from;
}

std::string value(const EmitContext& context, BufferId id) {
  return (context.names.is_number(id) ? "" : "*") + context.names.buffer(id);
}

std::string type_text(const Buffer& buffer) {
  return std::string("Type::") + (buffer.type == Type::boolean ? "boolean" : meshrt::name_of(buffer.type));
}

std::string elements(EmitContext& context, const Access& access) {
  return context.names.product(dims_of(context.program, access));
}

}  // namespace mesh
