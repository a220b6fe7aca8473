#include "codegen/emit/emit_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/emit/emit_calls.h"
#include "codegen/emit/emit_steps.h"
#include "codegen/emit/mentions.h"
#include "codegen/graph/builder.h"
#include "codegen/program/overlap.h"
#include "codegen/program/pipeline_slots.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

constexpr int body_depth = 2;              // of a member function of a struct
constexpr size_t lines_worth_a_call = 12;  // a shorter piece of a block stays where it is

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('.', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, size_t count) {
  std::string path;
  for (size_t i = 0; i < std::min(count, parts.size()); ++i) path += (i == 0 ? "" : ".") + parts[i];
  return path;
}

/// The scopes of all steps in the bodies that have one.
std::vector<std::string> scopes_within(const Step& step) {
  std::vector<std::string> scopes;
  for (const Steps* body : bodies(step))
    for_each_step(*body, [&](const Step& one) {
      if (!has_bodies(one) && !one.scope.empty()) scopes.push_back(one.scope);
    });
  return scopes;
}

/// The path that all of them share.
std::string common_path(const std::vector<std::string>& scopes) {
  if (scopes.empty()) return "";
  std::vector<std::string> shared = parts_of(scopes.front());
  for (const std::string& scope : scopes) {
    const std::vector<std::string> parts = parts_of(scope);
    size_t same = 0;
    while (same < std::min(shared.size(), parts.size()) && shared[same] == parts[same]) ++same;
    shared.resize(same);
  }
  return joined(shared, shared.size());
}

size_t count_lines(const std::string& text) { return static_cast<size_t>(std::ranges::count(text, '\n')); }

}  // namespace

/// Writes one routine.
class RoutineEmitter {
 public:
  RoutineEmitter(EmitContext& context, FunctionTable& table) : context_(context), table_(table) {}

  std::string write(uint32_t number) {
    CppWriter out(body_depth);
    Scope scope(context_.names);
    const Routine& routine = context_.program.routines[number];
    routine_ = identifier(routine.name);
    if (routine.after_forward_of) out.line(table_.forward_.at(*routine.after_forward_of));
    const auto begins = phase_begins(routine.steps);
    const bool shared = std::ranges::any_of(context_.program.routines,
                                            [&](const Routine& other) { return other.after_forward_of == number; });
    if (begins.size() == 1 && !shared) {
      write_steps(out, scope, routine.steps, 0, routine.steps.size(), "");
      return out.text();
    }
    for (size_t i = 0; i < begins.size(); ++i) {
      const size_t end = i + 1 < begins.size() ? begins[i + 1] : routine.steps.size();
      CppWriter body(body_depth);
      Scope inner(context_.names);
      context_.cause_before.clear();
      write_steps(body, inner, routine.steps, begins[i], end, "");
      const std::string phase = phase_of(part_of(routine.steps[begins[i]]));
      out.line(table_.call(context_, phase, "", {}, body.text()));
      if (shared && i == 0) table_.forward_[number] = table_.calls_.back();
    }
    return out.text();
  }

 private:
  /// Where forward, backward and update begin; a stretch that belongs to no new phase stays with the one before.
  static std::vector<size_t> phase_begins(const std::vector<Step>& steps) {
    std::vector<size_t> begins{0};
    int now = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Part part = part_of(steps[i]);
      const int phase = part == Part::forward ? 0 : part == Part::update ? 2 : 1;
      if (phase <= now) continue;
      now = phase;
      if (i > 0) begins.push_back(i);
    }
    return begins;
  }

  /// The block instance right under `prefix` that a step belongs to; "" for none.
  static std::string instance_of(const Step& step, const std::string& prefix) {
    std::string scope = step.scope;
    if (has_bodies(step)) scope = common_path(scopes_within(step));
    if (std::holds_alternative<ForStep>(step.what)) {
      const std::vector<std::string> parts = parts_of(scope);
      scope = joined(parts, parts.empty() ? 0 : parts.size() - 1);  // without the loop's own name
    }
    const std::vector<std::string> parts = parts_of(scope), base = parts_of(prefix);
    if (parts.size() <= base.size() || joined(parts, base.size()) != prefix) return "";
    return joined(parts, base.size() + 1);
  }

  void write_steps(CppWriter& out, Scope& scope, const std::vector<Step>& steps, size_t first, size_t end,
                   const std::string& prefix) {
    Origin before;
    for (size_t at = first; at < end;) {
      const std::string phase = phase_of(part_of(steps[at]));
      // Updates stand together, whatever block a parameter belongs to.
      const std::string instance = phase == "update" ? "" : instance_of(steps[at], prefix);
      size_t next = at + 1;
      const auto same = [&](const Step& step) {
        return phase_of(part_of(step)) == phase && (phase == "update" || instance_of(step, prefix) == instance);
      };
      while (next < end && same(steps[next])) ++next;
      if (instance.empty()) {
        for (; at < next; ++at) write_step(out, scope, steps[at], origin_of(steps, at, next), prefix, before);
        continue;
      }
      write_instance(out, scope, steps, at, next, instance, phase, before);
      at = next;
    }
  }

  /// The steps of one block instance: a function, where it is worth one.
  void write_instance(CppWriter& out, Scope& scope, const std::vector<Step>& steps, size_t first, size_t end,
                      const std::string& instance, const std::string& phase, Origin& before) {
    CppWriter body(body_depth);
    Scope inner(context_.names);
    context_.cause_before.clear();
    write_steps(body, inner, steps, first, end, instance);
    if (count_lines(body.text()) < lines_worth_a_call) {
      for (size_t at = first; at < end; ++at)
        write_step(out, scope, steps[at], origin_of(steps, at, end), instance, before);
      return;
    }
    const std::string name = identifier(instance.substr(instance.rfind('.') + 1)) + "_" + phase;
    out.blank();
    out.line(table_.call(context_, name, instance + ", " + phase, turns_, body.text()));
    before = {};
  }

  /// Whose lines a step stands under: a wait is for the step behind it that needs it.
  static const Step& origin_of(const std::vector<Step>& steps, size_t at, size_t end) {
    size_t needs = at;
    while (needs + 1 < end && is_in(steps[needs], CollectiveStep::Phase::wait)) ++needs;
    return has_bodies(steps[needs]) ? steps[at] : steps[needs];
  }

  void write_step(CppWriter& out, Scope& scope, const Step& step, const Step& origin, const std::string& prefix,
                  Origin& before) {
    if (!has_bodies(step)) return emit_step(context_, out, scope, step, origin, before);
    out.blank();
    emit_origin(context_, out, step, before);
    std::string inner_prefix = common_path(scopes_within(step));
    if (inner_prefix.size() < prefix.size()) inner_prefix = prefix;
    std::visit(
        [&]<class Kind>(const Kind& kind) {
          if constexpr (HasBodies<Kind>) write_control(out, scope, kind, inner_prefix);
        },
        step.what);
    before.counted.clear();  // the last of its steps may count for another line
  }

  void write_control(CppWriter& out, Scope& scope, const ForStep& loop, const std::string& prefix) {
    if (loop.order) return write_pipeline(out, loop, prefix);
    if (loop.only != ForStep::Only::every) return write_only(out, scope, loop, prefix);
    const auto block = out.block(head_of(loop));
    const Within within(*this, loop);
    CppWriter body(out.depth());
    Scope inner(scope);
    const auto* until = loop.body.empty() ? nullptr : std::get_if<UntilStep>(&loop.body.back().what);
    write_steps(body, inner, loop.body, 0, loop.body.size() - (until == nullptr ? 0 : 1), prefix);
    if (until != nullptr) {
      const bool plain = until->done.turns.empty();
      body.line(fmt::format("if ({}) break;",
                            plain ? value(context_, until->done.buffer) : "*(" + address(context_, until->done) + ")"));
    }
    declare_slot(out, loop, body.text());
    out.insert(body.text());
  }

  /// What is started before a loop for its first turn, or waited for behind it: a line each, without a loop.
  void write_only(CppWriter& out, Scope& scope, const ForStep& loop, const std::string& prefix) {
    const Within within(*this, loop);
    const int64_t turn = loop.only == ForStep::Only::first ? loop.first_turn() : loop.last_turn();
    context_.other_turns[loop.loop] = turn == 0 ? "0" : context_.names.size(loop.dim) + " - 1";
    write_steps(out, scope, loop.body, 0, loop.body.size(), prefix);
    context_.other_turns.erase(loop.loop);
  }

  /// The loop is around what is written while this is there.
  class Within {
   public:
    Within(RoutineEmitter& routine, const ForStep& loop) : routine_(routine), loop_(loop), before_(routine.turns_) {
      EmitContext& context = routine.context_;
      context.loops.push_back(loop.loop);
      routine.turns_.push_back(context.names.turn(loop.loop));
      if (!loop.own && !loop.order) return;
      context.slots[loop.loop] = loop.order && loop.order->ring ? context.graph().dim(loop.order->ring).size : 0;
      routine.turns_.push_back(context.names.turn_slot(loop.loop));
      if (!loop.order || !loop.order->stage) return;
      context.loops.push_back(loop.order->stage);
      context.slots[loop.order->stage] = 0;
      routine.turns_.push_back(context.names.turn(loop.order->stage));
      routine.turns_.push_back(context.names.turn_slot(loop.order->stage));
    }
    ~Within() {
      routine_.context_.loops.pop_back();
      if (loop_.order && loop_.order->stage) routine_.context_.loops.pop_back();
      routine_.context_.slots.erase(loop_.loop);
      if (loop_.order) routine_.context_.slots.erase(loop_.order->stage);
      routine_.turns_ = std::move(before_);
    }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    RoutineEmitter& routine_;
    const ForStep& loop_;
    std::vector<std::string> before_;
  };

  /// `const int64_t t_slot = t % in_flight;`, where the body uses it.
  void declare_slot(CppWriter& out, const ForStep& loop, const std::string& body) {
    const auto declare = [&](LoopId of, const std::string& slot) {
      if (const std::string& name = context_.names.turn_slot(of); mentions(body, name))
        out.line(fmt::format("const int64_t {} = {};", name, slot));
    };
    const std::string& turn = context_.names.turn(loop.loop);
    const auto among = [&](const LocalDim& own, const std::string& of) {
      return fmt::format("{}.slot({})", owners(context_, own.dim, own.placement), of);
    };
    if (loop.own) {
      const LocalDim own{loop.dim, *loop.own};
      declare(loop.loop, loop.stage ? among(own, turn) : fmt::format("{} - {}", turn, context_.names.begin(own)));
    } else if (loop.order) {
      declare(loop.loop, fmt::format("{} % {}", turn, context_.names.extent({loop.order->ring, {}})));
      if (loop.order->stage)
        declare(loop.order->stage, among(loop.order->stages, context_.names.turn(loop.order->stage)));
    }
  }

  /// `for (int64_t l = 0; l < layer; ++l)`
  std::string head_of(const ForStep& loop) {
    const std::string& turn = context_.names.turn(loop.loop);
    std::string first = "0", end = context_.names.size(loop.dim);
    if (loop.stage) {
      const std::string turns =
          fmt::format("{}[{}]", turns_of_stages(context_, loop.dim), context_.names.turn(loop.stage));
      first = turns + ".begin";
      end = turns + ".end";
    } else if (loop.own) {
      const LocalDim own{loop.dim, *loop.own};
      first = context_.names.begin(own);
      end = first + " + " + context_.names.extent(own);
    }
    return loop.reverse ? fmt::format("for (int64_t {0} = {2} - 1; {0} >= {1}; --{0})", turn, first, end)
                        : fmt::format("for (int64_t {0} = {1}; {0} < {2}; ++{0})", turn, first, end);
  }

  /// A function for each action, and the call that runs this rank's.
  void write_pipeline(CppWriter& out, const ForStep& loop, const std::string& prefix) {
    ActionCalls calls;
    for (const Step& step : loop.body) {
      const auto& action = std::get<ActionStep>(step.what);
      CppWriter steps(body_depth), body(body_depth);
      Scope scope(context_.names);
      context_.cause_before.clear();
      {
        const Within within(*this, loop);
        write_steps(steps, scope, action.body, 0, action.body.size(), prefix);
      }
      declare_slot(body, loop, steps.text());
      body.insert(steps.text());
      const std::string phase = name_of(action.kind);
      std::vector<std::string> turns = turns_;  // of a replica, whose part of the samples goes through
      turns.push_back(context_.names.turn(loop.loop));
      if (loop.order->stage) turns.push_back(context_.names.turn(loop.order->stage));
      const std::string without = action.keeps ? " where it is not computed again" : "";
      calls[{action.kind, action.keeps}] =
          table_.call(context_, fmt::format("stage_{}{}", phase, action.keeps ? "_kept" : ""),
                      fmt::format("what a stage does of one micro-batch, {}{}", phase, without), turns, body.text());
    }
    emit_pipeline_run(context_, out, loop, routine_, calls);
  }

  static const char* name_of(ActionKind kind) {
    switch (kind) {
      case ActionKind::forward: return "forward";
      case ActionKind::recompute: return "forward_again";
      case ActionKind::input_gradient: return "input_gradients";
      case ActionKind::weight_gradient: return "weight_gradients";
      default: return "backward";
    }
  }

  static void write_control(CppWriter&, Scope&, const ActionStep&, const std::string&) {
    internal_error("an action stands in no pipeline");
  }

  void write_control(CppWriter& out, Scope& scope, const OnePassStep& pass, const std::string& prefix) {
    if (context_.find_nonfinite) return write_steps(out, scope, pass.body, 0, pass.body.size(), prefix);
    const auto nest = std::ranges::find_if(pass.body, [](const Step& step) { return movements(step).empty(); });
    Origin before;
    emit_origin(context_, out, *nest, before);
    emit_one_pass(context_, out, pass);
  }

  /// `if (index_on(mesh::pipe) == 0) { ... }`
  void write_control(CppWriter& out, Scope& scope, const BranchStep& branch, const std::string& prefix) {
    std::vector<std::string> conditions;
    if (branch.stage && branch.at.empty())
      conditions.push_back(fmt::format("{} < {}.size", context_.names.turn(branch.stage->stage),
                                       context_.names.axis(context_.program.sharded.layout.pipeline.axis)));
    for (const Where& where : branch.at) {
      const TurnOwner& owner = where.owner;
      const bool all_axes = owner && std::ranges::all_of(owner.axes, [&](AxisId axis) {
                              return std::ranges::count(branch.at, Where{axis, {}, owner}) > 0;
                            });
      if (all_axes && where.axis != owner.axes.front()) continue;
      if (branch.stage && where.axis == context_.program.sharded.layout.pipeline.axis) {
        conditions.push_back(
            fmt::format("{} == {}", context_.names.turn(branch.stage->stage), stage_of(branch, where)));
        continue;
      }
      conditions.push_back(all_axes ? fmt::format("{}.has({})", owners(context_, owner.dim, {owner.axes, owner.deal}),
                                                  context_.names.index(owner.dim))
                                    : condition(where));
    }
    for (std::string& one : conditions)
      if (conditions.size() > 1 && one.find(" || ") != std::string::npos) one = fmt::format("({})", one);
    const auto block = out.block(fmt::format("if ({})", fmt::join(conditions, " && ")));
    Scope inner(scope);
    write_steps(out, inner, branch.body, 0, branch.body.size(), prefix);
  }

  /// The stage whose actions alone enter the branch.
  int32_t stage_of(const BranchStep& branch, const Where& where) const {
    return context_.program.sharded.layout.pipeline.lists.stage_on(static_cast<int>(where.coordinates.front()),
                                                                   branch.stage->number);
  }

  /// `index_on(mesh::pipe) == 0`, `index_on(mesh::pipe) >= 1`, `index_on(mesh::pipe) == 0 || ...`
  std::string condition(const Where& where) {
    const std::string index = "index_on(" + context_.names.axis(where.axis) + ")";
    if (where.owner) return fmt::format("{} == {}", index, coordinate(context_, where));
    const std::vector<int64_t>& at = where.coordinates;
    const bool in_a_row = at.back() - at.front() + 1 == static_cast<int64_t>(at.size());
    if (at.size() > 1 && in_a_row && at.back() + 1 == context_.mesh().axes[where.axis].size)
      return fmt::format("{} >= {}", index, at.front());
    if (at.size() > 1 && in_a_row && at.front() == 0) return fmt::format("{} <= {}", index, at.back());
    std::vector<std::string> each;
    each.reserve(at.size());
    for (const int64_t coordinate : at) each.push_back(fmt::format("{} == {}", index, coordinate));
    return fmt::format("{}", fmt::join(each, " || "));
  }

  EmitContext& context_;
  FunctionTable& table_;
  std::vector<std::string> turns_;  // variables of the loops under way
  std::string routine_;             // its name
};

std::string FunctionTable::routine(EmitContext& context, uint32_t routine) {
  return RoutineEmitter(context, *this).write(routine);
}

std::string FunctionTable::call(EmitContext& context, const std::string& name, const std::string& comment,
                                const std::vector<std::string>& turns, const std::string& body) {
  for (size_t i = 0; i < functions_.size(); ++i)
    if (functions_[i].body == body && functions_[i].comment == comment) return calls_[i];
  const std::string unique = context.names.reserve(name);
  std::string parameters, arguments;
  for (const std::string& turn : turns) {
    if (!mentions(body, turn)) continue;
    parameters += (parameters.empty() ? "int64_t " : ", int64_t ") + turn;
    arguments += (arguments.empty() ? "" : ", ") + turn;
  }
  functions_.push_back({comment, "void " + unique + "(" + parameters + ")", body});
  calls_.push_back(unique + "(" + arguments + ");");
  return calls_.back();
}

}  // namespace mesh
