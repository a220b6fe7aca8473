#include "codegen/check_limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/program/exposed.h"
#include "codegen/program/largest_values.h"
#include "codegen/way_out.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

using meshrt::bytes_text;

int64_t peak_of(const Compiled& compiled) { return compiled.program.memory.peak(); }

std::string over_text(const Limit& limit, const MeshShape& mesh) {
  return limit.over ? fmt::format(" over `{}`", mesh.axes[*limit.over].name) : "";
}

/// "a, b and c"
std::string listed(std::vector<std::string> parts) {
  const std::string last = parts.back();
  parts.pop_back();
  return parts.empty() ? last : fmt::format("{} and {}", fmt::join(parts, ", "), last);
}

/// "2 all_gather and 1 all_reduce"
std::string counts_text(const CollectiveCounts& counts) {
  std::vector<std::string> parts;
  for (const auto& [kind, count] : counts)
    if (count > 0) parts.push_back(fmt::format("{} {}", count, name_of(kind)));
  return parts.empty() ? "no collectives" : listed(std::move(parts));
}

constexpr int most_rules = 3;  // of a way out

int64_t ranks_of_host(const Machine& machine, const MeshShape& mesh) {
  return std::min(machine.node_ranks, mesh.ranks());
}
int64_t memory_of_host(const Machine& machine) { return static_cast<int64_t>(machine.node_memory_gib * 0x1p30); }

class Checker {
 public:
  Checker(const CompileRequest& request, Compiled& compiled, const SourceMap& sources, DiagnosticSink& sink)
      : request_(request), compiled_(compiled), mesh_(compiled.sharded().layout.mesh), sources_(sources), sink_(sink) {}

  void budget(const std::vector<Limit>& limits) {
    if (limits.empty()) return;
    const Prediction step = predict(compiled_.program);
    for (const Limit& limit : limits) compiled_.budget.push_back(measure(limit, step, peak_of(compiled_)));
    for (size_t i = 0; i < limits.size(); ++i)
      if (!compiled_.budget[i].holds) broken(i);
  }

  void room() {
    const Machine& machine = compiled_.sharded().machine;
    const int64_t peak = peak_of(compiled_);
    if (request_.memory) {
      compiled_.room = Room{1, peak, *request_.memory};
    } else if (machine.node_memory_gib > 0) {
      const int64_t ranks = ranks_of_host(machine, mesh_);
      compiled_.room = Room{ranks, needed_of_host(ranks), memory_of_host(machine)};
    }
    const bool heard = !request_.on_trial && sink_.lint_level("over_memory") != LintLevel::allow;
    if (heard && compiled_.room && !compiled_.room->fits()) no_room(*compiled_.room);
  }

 private:
  /// By the host whose ranks take most.
  int64_t needed_of_host(int64_t ranks) const {
    const MemoryPlan& memory = compiled_.program.memory;
    if (memory.used.empty()) return ranks * memory.peak();
    int64_t most = 0, of_host = 0;
    for (int64_t rank = 0; rank < mesh_.ranks(); ++rank) {
      if (rank % ranks == 0) of_host = 0;
      of_host += static_cast<int64_t>(memory.used[static_cast<size_t>(index_over(mesh_, memory.axes, rank))].bytes());
      most = std::max(most, of_host);
    }
    return most;
  }

  std::string whose() const { return fmt::format("the budget of layout `{}`", compiled_.sharded().layout.name); }

  void broken(size_t index) {
    const LimitState& state = compiled_.budget[index];
    switch (state.limit.what) {
      case Limit::What::memory: memory(state, index); break;
      case Limit::What::bytes: bytes(state, index); break;
      case Limit::What::forbidden: forbidden(state, index); break;
      case Limit::What::counts: counts(state, index); break;
    }
  }

  void memory(const LimitState& state, size_t index) {
    auto report = sink_.error("E0415", state.limit.span, "a rank holds {}, and {} {} {}", bytes_text(state.at), whose(),
                              state.limit.exactly ? "says exactly" : "allows", bytes_text(state.limit.bytes));
    report.here(difference(state));
    if (state.at < state.limit.bytes) return;
    largest(report);
    tell_way_out(report, for_memory(), index, [](const Compiled& better) {
      return fmt::format("a rank then holds {}", bytes_text(peak_of(better)));
    });
  }

  void bytes(const LimitState& state, size_t index) {
    const std::string over = over_text(state.limit, mesh_);
    auto report = sink_.error("E0416", state.limit.span, "a step sends {}{}, and {} {} {}", bytes_text(state.at), over,
                              whose(), state.limit.exactly ? "says exactly" : "allows", bytes_text(state.limit.bytes));
    report.here(difference(state));
    if (state.at < state.limit.bytes) return;
    culprits(report, state.concerned);
    tell_way_out(report, for_collectives(index), index, [&](const Compiled& better) {
      return fmt::format("a step then sends {}{}", bytes_text(better.budget[index].at), over);
    });
  }

  void forbidden(const LimitState& state, size_t index) {
    const PlannedCollective& first = state.concerned.front();
    auto report = sink_.error("E0417", state.limit.span, "{} of `{}` over `{}`, which {} forbids", name_of(first.kind),
                              first.tensor, axes_text(mesh_, first.axes), whose());
    culprits(report, state.concerned);
    tell_way_out(report, for_collectives(index), index, [index](const Compiled& better) {
      const int64_t left = better.budget[index].at;
      return left == 0 ? std::string("then there is none") : fmt::format("then there are {}", left);
    });
  }

  void counts(const LimitState& state, size_t index) {
    auto report =
        sink_.error("E0418", state.limit.span, "`{}` has {}{}, and {} says {}", state.limit.in.text(),
                    counts_text(state.counts), over_text(state.limit, mesh_), whose(), counts_text(state.limit.counts));
    std::vector<PlannedCollective> surplus;
    for (const PlannedCollective& one : state.concerned) {
      const auto wanted = state.limit.counts.find(one.kind);
      if (wanted == state.limit.counts.end() || state.counts.at(one.kind) > wanted->second) surplus.push_back(one);
    }
    culprits(report, surplus.empty() ? state.concerned : surplus);
    tell_way_out(report, for_collectives(index), index, [&, index](const Compiled& better) {
      return fmt::format("then it has {}", counts_text(better.budget[index].counts));
    });
  }

  void no_room(const Room& room) {
    auto report =
        request_.memory
            ? sink_.lint("over_memory", Span{}, "a rank holds {}, and --memory gives it {}", bytes_text(room.needed),
                         bytes_text(room.bytes))
            : sink_.lint("over_memory", Span{}, "{} ranks of a host hold {}, and a host of machine `{}` has {}",
                         room.ranks, bytes_text(room.needed), compiled_.sharded().machine.name, bytes_text(room.bytes));
    report.note(fmt::format(
        "{} too much{}", bytes_text(room.needed - room.bytes),
        room.ranks > 1
            ? fmt::format("; {} holds {}", compiled_.program.memory.used.empty() ? "each rank" : "the largest rank",
                          bytes_text(peak_of(compiled_)))
            : ""));
    largest(report);
    tell_way_out(
        report, for_memory(),
        [&](const Compiled& other) {
          const bool worse = !other.room || broken_limits(other) > broken_limits(compiled_);
          return worse ? std::nullopt : std::optional(std::max<int64_t>(0, other.room->needed - other.room->bytes));
        },
        room.needed - room.bytes,
        [](const Compiled& better) { return fmt::format("a rank then holds {}", bytes_text(peak_of(better))); });
  }

  static std::string difference(const LimitState& state) {
    const int64_t more = state.at - state.limit.bytes;
    return more > 0 ? bytes_text(more) + " too much" : bytes_text(-more) + " less";
  }

  /// The values that take most: the first with its line.
  void largest(DiagnosticBuilder& report) const {
    const std::vector<const Buffer*> buffers = largest_buffers(compiled_.program);
    if (buffers.empty()) return;
    const Buffer& most = *buffers.front();
    report.label(most.span, "{} takes {}: {}", name_text(most), bytes_text(bytes_of(most)),
                 parts_text(compiled_.program, most));
    std::vector<std::string> others;
    for (size_t i = 0; i < std::min<size_t>(buffers.size(), 4); ++i)
      others.push_back(fmt::format("{} {}", name_text(*buffers[i]), bytes_text(bytes_of(*buffers[i]))));
    report.note("the largest: " + fmt::format("{}", fmt::join(others, ", ")));
  }

  /// The collectives that break a limit: the first with its line, its reason and the rule behind it.
  void culprits(DiagnosticBuilder& report, const std::vector<PlannedCollective>& all) const {
    if (all.empty()) return;
    const PlannedCollective& first = all.front();
    report.label(first.span, "{} of `{}` over `{}` sends {}", name_of(first.kind), first.tensor,
                 axes_text(mesh_, first.axes), bytes_text(volume(first)));
    report.label(first.rule, "by this rule");
    report.note(first.reason);
    std::vector<std::string> others;
    for (size_t i = 1; i < all.size(); ++i) {
      const std::string place = all[i].span.known() ? " (" + sources_.file_and_line(all[i].span) + ")" : "";
      others.push_back(
          fmt::format("{} of `{}` {}{}", name_of(all[i].kind), all[i].tensor, bytes_text(volume(all[i])), place));
    }
    if (others.size() > 4) others = {others[0], others[1], others[2], fmt::format("{} more", others.size() - 3)};
    if (!others.empty()) report.note("besides: " + fmt::format("{}", fmt::join(others, ", ")));
  }

  Proposals for_memory() const {
    return [this](const SourceMap& text, const Compiled& under) { return changes_for_memory(request_, text, under); };
  }
  Proposals for_collectives(size_t index) const {
    return [this, index](const SourceMap& text, const Compiled& under) {
      return changes_for(request_, text, under, under.budget[index].concerned);
    };
  }

  static int64_t broken_limits(const Compiled& compiled) {
    return std::ranges::count(compiled.budget, false, &LimitState::holds);
  }

  /// How far a limit is from being kept: bytes, or collectives too many and too few.
  static int64_t excess_of(const LimitState& state) {
    if (state.holds) return 0;
    if (state.limit.what != Limit::What::counts) return std::abs(state.at - state.limit.bytes);
    int64_t sum = 0;
    for (const auto& [kind, count] : state.counts) {
      const auto wanted = state.limit.counts.find(kind);
      sum += std::abs(count - (wanted == state.limit.counts.end() ? 0 : wanted->second));
    }
    return sum;
  }

  template <class Effect>
  void tell_way_out(DiagnosticBuilder& report, const Proposals& proposals, size_t index, Effect effect) const {
    const int64_t now = excess_of(compiled_.budget[index]), broken = broken_limits(compiled_);
    tell_way_out(
        report, proposals,
        [&](const Compiled& other) {
          const bool comparable = other.budget.size() == compiled_.budget.size() && broken_limits(other) <= broken;
          return comparable ? std::optional(excess_of(other.budget[index])) : std::nullopt;
        },
        now, effect);
  }

  template <class Effect>
  void tell_way_out(DiagnosticBuilder& report, const Proposals& proposals, const Excess& excess, int64_t now,
                    Effect effect) const {
    if (request_.on_trial || compiled_.found) return;  // a search has looked for one already
    const auto way = find_way_out(request_, sources_, compiled_, proposals, sink_, excess, now, most_rules);
    if (!way) {
      report.help("no rule that was tried helps; `meshc plan SPEC --all -n N` compares layouts and meshes");
      return;
    }
    const std::string& layout = compiled_.sharded().layout.name;
    std::vector<std::string> rules;
    for (const Change& change : way->changes) rules.push_back(fmt::format("`{}`", change.shown));
    const bool several = rules.size() > 1;
    const std::string text = listed(std::move(rules));
    const std::string reached = effect(way->compiled);
    if (way->excess > 0) {
      report.help(fmt::format("no rules that were tried are enough; {} in layout `{}` help{} most: {}", text, layout,
                              several ? "" : "s", reached));
      return;
    }
    const bool replaces = std::ranges::any_of(way->changes, &Change::replaces);
    report.help(fmt::format("{} {} {} layout `{}`: {}", replaces ? "write" : "add", text, replaces ? "in" : "to",
                            layout, reached));
    if (!several) report.fix(way->changes.front().at, way->changes.front().text);
  }

  const CompileRequest& request_;
  Compiled& compiled_;
  const MeshShape& mesh_;
  const SourceMap& sources_;
  DiagnosticSink& sink_;
};

}  // namespace

std::optional<int64_t> memory_of_rank(const CompileRequest& request, const Machine& machine, const MeshShape& mesh) {
  if (request.memory || machine.node_memory_gib == 0) return request.memory;
  return memory_of_host(machine) / ranks_of_host(machine, mesh);
}

std::optional<MemoryLimit> memory_limit(const CompileRequest& request, const Machine& machine, const MeshShape& mesh,
                                        const std::vector<Limit>& budget) {
  std::optional<MemoryLimit> least;
  if (const std::optional<int64_t> bytes = memory_of_rank(request, machine, mesh))
    least = {*bytes, request.memory ? fmt::format("--memory gives it {}", bytes_text(*bytes))
                                    : fmt::format("a host of machine `{}` has {} for each of its {} ranks",
                                                  machine.name, bytes_text(*bytes), ranks_of_host(machine, mesh))};
  for (const Limit& limit : budget)
    if (limit.what == Limit::What::memory && (!least || limit.bytes < least->bytes))
      least = {limit.bytes, fmt::format("the layout's budget allows {}", bytes_text(limit.bytes))};
  return least;
}

void check_limits(const CompileRequest& request, const std::vector<Limit>& budget, Compiled& compiled,
                  const SourceMap& sources, DiagnosticSink& sink) {
  if (!request.wanted.empty() || request.plain || request.one_rank) return;
  Checker checker(request, compiled, sources, sink);
  checker.room();
  checker.budget(budget);
}

}  // namespace mesh
