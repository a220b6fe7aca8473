// context.h: what the walk of elaboration carries with it: terms (what an expression gives), names and where they are
// visible, the loops that are open, and the graph under construction. One Elaboration lives as long as one call of
// `elaborate`.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/elaborate/declarations.h"
#include "codegen/elaborate/elaborate.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/graph.h"
#include "frontend/ast.h"
#include "frontend/diagnostic.h"
#include "frontend/size.h"

namespace mesh::elaboration {

struct Choice;
struct RoutingPlan;

/// A number without an element type, or one of several by a condition.
struct Untyped {
  double number = 0;
  std::shared_ptr<const Choice> choice;  // null: `number`
};
/// `where(condition, 0.1, 0)`: takes the element type that it meets, as a number does.
struct Choice {
  ValueId condition;
  Untyped yes, no;
};

/// What an expression gives. Poison stands for a mistake that was reported: whatever uses it says nothing more.
struct Term {
  enum class Kind : uint8_t { poison, number, truth, tensor, masked, plan };
  Kind kind = Kind::poison;
  double number = 0;                               // number: without an element type until it meets one
  bool truth = false;                              // truth: `true`, `false` and what folds to them
  ValueId value;                                   // tensor; of masked the score
  ValueId keep;                                    // masked: entries where it is false count as absent
  std::shared_ptr<const Choice> choice = nullptr;  // tensor: of numbers alone; `value` has them as default_float
  std::shared_ptr<RoutingPlan> plan = nullptr;     // plan: which tokens go to which experts (routing_plan.h)

  bool poisoned() const { return kind == Kind::poison; }
  bool is_number() const { return kind == Kind::number; }
  bool is_truth() const { return kind == Kind::truth; }
  bool is_tensor() const { return kind == Kind::tensor; }
  bool is_masked() const { return kind == Kind::masked; }
  bool is_plan() const { return kind == Kind::plan; }
  /// It takes the element type of what it meets.
  bool is_untyped() const { return is_number() || choice != nullptr; }

  static Term poison() { return {}; }
  static Term of(double number) { return {Kind::number, number, false, {}, {}}; }
  static Term of_truth(bool truth) { return {Kind::truth, 0, truth, {}, {}}; }
  static Term of(ValueId value) { return {Kind::tensor, 0, false, value, {}}; }
  static Term masked(ValueId score, ValueId keep) { return {Kind::masked, 0, false, score, keep}; }
  static Term planned(std::shared_ptr<RoutingPlan> plan) {
    Term term;
    term.kind = Kind::plan;
    term.plan = std::move(plan);
    return term;
  }
};

/// Dims visible in a body: its own and its block's parameters over the global ones.
struct DimScope {
  std::string owner;  // name of the block or model; "" for the global scope
  std::map<std::string, DimId> own;
  std::set<std::string> broken;            // declared, but with a mistake
  std::optional<std::vector<DimId>> rest;  // what `...` stands for, once the arguments are known
};

/// A `repeat` that is being written.
struct Loop {
  NodeId node;
  DimId dim;
  BodyId body;
  std::string label;                  // its name in paths: that of the dim, unless `as` gives another
  std::vector<LoopOp::Slice> slices;  // parameters read inside, a turn each
  ValueId index;
};

/// A block with its dims bound: what `param attn : Attention` declares, or what a call makes.
struct Instance {
  const ast::Block* block = nullptr;
  std::string path;
  DimScope dims;
};

struct Binding {
  enum class Kind : uint8_t { value, stored, instance };
  Kind kind = Kind::value;
  Term term;        // value
  StoredId stored;  // stored: an input, a parameter
  const Instance* instance = nullptr;
  std::vector<Loop*> home;  // stored, instance: the loops whose dims come first in what it owns
  Span span;
  size_t regions = 0;  // how many manual regions were open where it was bound
};

/// A `repeat` that has been written, and what its body binds: the values at the end of a turn.
struct ClosedLoop {
  const Loop* loop;
  std::map<std::string, Term> names;
};

/// A body under elaboration: the model's, a block's, or that of a `repeat`.
struct Frame {
  Frame* outer = nullptr;  // of a `repeat`: the body around it, whose names it sees
  std::string path;        // of what it owns: "layer.attn"
  std::string call;        // of its values: the same, but each further call of an instance has one: "layer.attn#2"
  DimScope* dims = nullptr;
  std::vector<Loop*> home;
  std::map<std::string, Binding> names;
  std::vector<ClosedLoop> closed;     // the loops of this body, for `collect`
  const ast::Block* block = nullptr;  // the block whose body this is, or is part of
  bool attributes = false;            // a bare dim is its size here
  bool ended = false;                 // metrics and outputs: a name that is bound below them is not known
  std::vector<std::pair<Term, Span>> results;
  Span returned;  // of the `return` that was met
};

/// A manual region that is being written: its values have the shapes that one rank sees. When it ends they become
/// those of all ranks side by side (manual_spread.h).
struct Region {
  const Frame* frame;  // in which it stands
  BodyId body;
  uint32_t first_node;  // its nodes are those of the body from here on
  Span span;            // of `manual ffn over model`
  struct Axis {
    std::string name;
    DimId ranks;  // RanksDim
  };
  std::vector<Axis> axes;
  struct Cut {
    DimId whole, local, ranks;
  };
  std::vector<Cut> cuts;
};

/// What a node of a manual region does with several ranks. Until the region ends a copy of its operand stands for it,
/// with the type that one rank sees.
struct AcrossRanks {
  enum class Kind : uint8_t { part, coordinate, all_reduce, all_gather, reduce_scatter, permute, all_to_all } kind;
  DimId ranks;
  DimId gathered = {}, whole = {};   // the part of a dim, and the dim that the parts of all ranks are
  DimId split = {}, scattered = {};  // the dim that is cut, and a rank's part of it
  int64_t by = 0;                    // of permute
  Reduce reduce = Reduce::sum;       // of all_reduce and reduce_scatter
};

/// `s <- value`. In a `repeat` the value is a turn's until the loop closes.
struct StateUpdate {
  ValueId value;
  Span span, call;  // of the statement; of the call of the block that it stands in, if it does
};

/// What a trial of a loop's body may change and must be able to take back.
struct Tables {
  std::map<std::string, StoredId> stored;            // by path
  std::map<std::string, const Instance*> instances;  // by path
  std::map<std::string, Span> unnamed;               // instances that a call made, by path
  std::map<std::string, ValueId> wanted;             // name -> value in the nearest body that is still open
  std::map<StoredId, StateUpdate> updates;
  std::map<NodeId, AcrossRanks> across;                       // of open manual regions
  std::map<std::string, int> draws;                           // of random numbers, by path
  std::map<std::string, int> calls;                           // of instances, by path
  std::set<std::string> known;                                // names of values, of every kind, for suggestions
  std::map<std::string, Span> bound_in;                       // of the value of a name, the last `repeat` that binds it
  std::map<std::string, std::pair<Span, Span>> of_two_loops;  // names that two loops bind: where these are
  bool too_large = false;                                     // E0119 was reported: no more blocks are inlined
};

struct Elaboration {
  Elaboration(const Declarations& declared, const SourceMap& sources, const ElaborateOptions& options,
              DiagnosticSink& sink, Graph& graph)
      : declared(declared), sources(sources), options(options), sink(&sink), graph(graph), build(graph) {}

  const Declarations& declared;
  const SourceMap& sources;
  const ElaborateOptions& options;
  DiagnosticSink* sink;  // a trial of a loop's body reports elsewhere
  Graph& graph;
  GraphBuilder build;

  DimScope global;
  std::map<std::string, NamedSize> sizes;  // of global dims and consts; without a value where it is wrong
  std::map<std::string, Term> constants;
  std::deque<Instance> owned_instances;
  std::deque<Loop> owned_loops;
  std::vector<Loop*> loops;                               // open ones, outermost first
  std::vector<const Region*> regions;                     // open manual ones, outermost first
  std::vector<std::pair<const ast::Block*, Span>> calls;  // blocks being inlined
  Tables tables;
  bool lacks_parameters = false;  // the declaration of some was wrong and is reported: they are missing from the graph

  template <class... Arguments>
  DiagnosticBuilder error(const char* code, Span span, fmt::format_string<Arguments...> format,
                          Arguments&&... arguments) {
    return with_instance(sink->error(code, span, fmt::format(format, std::forward<Arguments>(arguments)...)));
  }
  /// Inside a block with dims of its own, a mistake may lie in what they are bound to: says where.
  DiagnosticBuilder with_instance(DiagnosticBuilder) const;
  const ValueType& type(ValueId id) const { return graph.type(id); }
  const std::string& name(DimId id) const { return graph.dim(id).name; }
  int64_t size(DimId id) const { return graph.dim(id).size; }
};

/// A construct that parses but is not built yet: one error with what to write instead, if there is something.
Term not_built(Elaboration&, Span, const std::string& what, const std::string& instead = {});

/// "layer" + "attn" -> "layer.attn"
std::string join(const std::string& path, const std::string& name);

/// "`a`, `b` and `c`"
std::string quoted(const std::vector<std::string>& names);
std::string quoted(const Elaboration&, const std::vector<DimId>& dims);

/// "f32[batch, seq]", "a number", "a masked f32[key]"
std::string describe(const Elaboration&, const Term&);

bool contains(const std::vector<DimId>& dims, DimId dim);
/// Whether `all` has each of `some`.
bool contains_all(const std::vector<DimId>& all, const std::vector<DimId>& some);
/// The dims of `some` that `all` lacks, in order.
std::vector<DimId> missing_from(const std::vector<DimId>& all, const std::vector<DimId>& some);

}  // namespace mesh::elaboration
