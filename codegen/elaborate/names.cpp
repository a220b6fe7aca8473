#include "codegen/elaborate/names.h"

#include <algorithm>
#include <cmath>

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/terms.h"
#include "codegen/graph/glob.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

bool is_wanted(const Elaboration& e, const std::string& path) {
  return std::any_of(e.options.want_values.begin(), e.options.want_values.end(),
                     [&](const std::string& wanted) { return wanted == path || Glob::parse(wanted).matches(path); });
}

/// A value to fetch: numbers and masked values have none of their own.
ValueId fetched(Elaboration& e, const Term& term) {
  if (!term.is_masked()) return tensor_of(e, term, e.build.span);
  const ValueId absent = e.build.literal(-INFINITY, e.type(term.value).element);
  return e.build.map(MapFunction::where, {term.keep, term.value, absent});
}

/// How to ask for what is not a value but has that name.
std::string way_to(const Elaboration& e, const std::string& name) {
  if (const auto stored = e.tables.stored.find(name); stored != e.tables.stored.end()) {
    switch (e.graph.stored[stored->second.index].kind) {
      case StoredKind::parameter: return fmt::format("it is a parameter: `param({0})`, its gradient `grad({0})`", name);
      case StoredKind::input: return "it is an input: what is fed";
      default: return "it is a state; name a value that reads it";
    }
  }
  if (e.tables.instances.count(name) > 0)
    return fmt::format("it is an instance of a block: `{0}.*` are the values in it, `param({0}.*)` its parameters",
                       name);
  if (find_dim(e, e.global, name)) return "it is a dim; `meshc plan` tells its size on a rank";
  return {};
}

/// Remembers in which loop a name is bound, and whether another binds it too: `repeat layer` twice.
void note_loop(Elaboration& e, const std::string& path) {
  if (e.loops.empty()) return;
  const Span loop = e.graph.node(e.loops.back()->node).span;
  const auto [known, fresh] = e.tables.bound_in.try_emplace(path, loop);
  if (fresh || known->second == loop) return;
  e.tables.of_two_loops.try_emplace(path, known->second, loop);
  known->second = loop;
}

/// E0204 for a value that is asked for by its name, which two loops bind: what is meant?
void refuse_two_loops(Elaboration& e, const std::string& path) {
  const auto loops = e.tables.of_two_loops.find(path);
  if (loops == e.tables.of_two_loops.end()) return;
  const auto& [first, second] = loops->second;
  e.error("E0204", second, "`{}` may be a value of either of two loops", path)
      .here("the second")
      .label(first, "the first")
      .help("loops over one dim may have names of their own: `repeat {} as other {{ ... }}`", e.sources.text(second));
}

}  // namespace

void record_name(Elaboration& e, const std::string& path, const Term& term) {
  if (term.is_plan()) return;
  e.tables.known.insert(path);
  note_loop(e, path);
  if (term.poisoned()) return;
  ValueId kept = is_wanted(e, path) ? fetched(e, term) : ValueId{};
  // In a loop a name of what was made before it is fetched with all turns too.
  if (kept && e.graph.value(kept).body != e.build.body) kept = e.build.map(MapFunction::copy, {kept});
  if (kept) e.tables.wanted[path] = kept;
  const ValueId value = term.is_tensor() ? term.value : kept;
  if (!value) return;
  Value& named = e.graph.value(value);
  const bool stored = e.tables.stored.contains(path);  // which has a tensor of its own, whatever becomes its next value
  if (!stored && (!named.name.empty() || named.body == e.build.body)) named.add_name(path);
  // What a name that is bound anew stood for, as `h = x` before a loop that changes h, keeps only a name of its own.
  if (const auto bound = e.graph.names.find(path); bound != e.graph.names.end() && bound->second != value)
    std::erase(e.graph.value(bound->second).other_names, path);
  e.graph.names[path] = value;
}

void collect_wanted(Elaboration& e, const Loop& loop, LoopOp& op, Node& node, BodyId outer) {
  // Of all turns a value with the loop's dim would have it twice: none is kept of a pattern, and by its name it is
  // refused.
  std::erase_if(e.tables.wanted, [&](const auto& entry) {
    const auto& [path, value] = entry;
    if (e.graph.value(value).body != loop.body || !contains(e.type(value).dims, loop.dim)) return false;
    if (std::ranges::find(e.options.want_values, path) != e.options.want_values.end())
      e.error("E0312", e.graph.node(e.graph.value(value).producer).span, "`{}` would have dim `{}` twice", path,
              e.name(loop.dim))
          .here("{} at every turn of `repeat {}`", to_string(e.graph, e.type(value)), e.name(loop.dim))
          .help(fmt::format("bind a name to what has no `{0}`, such as its mean over `{0}`, and ask for that",
                            e.name(loop.dim)));
    return true;
  });
  for (auto& [path, value] : e.tables.wanted) {
    if (e.graph.value(value).body != loop.body) continue;
    ValueType type = e.type(value);
    type.dims.insert(type.dims.begin(), loop.dim);
    const ValueId stacked = e.build.argument(type, outer, loop.node, path);
    op.collects.push_back({value, stacked});
    node.results.push_back(stacked);
    value = stacked;
  }
}

void finish_wanted(Elaboration& e) {
  for (const auto& [path, value] : e.tables.wanted) e.graph.wanted.push_back({path, value});
  if (e.sink->has_errors()) return;  // what is not there may be what they are about
  for (const std::string& wanted : e.options.want_values) refuse_two_loops(e, wanted);
  for (const std::string& wanted : e.options.want_values) {
    const Glob glob = Glob::parse(wanted);
    if (std::any_of(e.tables.known.begin(), e.tables.known.end(),
                    [&](const std::string& path) { return path == wanted || glob.matches(path); }))
      continue;
    auto report = e.error("E0209", Span{}, "no value is called `{}`", wanted);
    const std::vector<std::string> known(e.tables.known.begin(), e.tables.known.end());
    if (const std::string way = way_to(e, wanted); !way.empty()) report.help(way);
    else if (const auto near = did_you_mean(wanted, known)) report.help(fmt::format("did you mean `{}`?", *near));
    else if (!known.empty()) report.note("values of the model: " + some_of(known));
  }
}

}  // namespace mesh::elaboration
