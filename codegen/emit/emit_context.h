// emit_context.h: what every part of the emitter shares: the program, its sources, the names, the call sites so far;
// and the local names of the function being written.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/emit/cpp_writer.h"
#include "codegen/emit/names.h"
#include "codegen/program/extent.h"
#include "codegen/program/program.h"
#include "frontend/source.h"

namespace mesh {

/// The local names of one function. Names of a scope that ended are free again; a constant is computed once and found
/// again by its text.
class Scope {
 public:
  explicit Scope(const Names& names) : names_(names) {}
  /// The scope inside another one's braces: sees what is there now.
  explicit Scope(Scope& around)
      : names_(around.names_), around_(&around), used_(around.used_), constants_(around.constants_) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// A name that no other visible thing has: `wanted`, else `wanted_2`, ... `lasting`: declared outside this scope's
  /// braces, so that the scope around must know it too.
  std::string fresh(const std::string& wanted, bool lasting = false);
  const std::string* constant(const std::string& text) const;
  void remember_constant(const std::string& text, const std::string& name, bool lasting);

 private:
  const Names& names_;
  Scope* around_ = nullptr;
  std::set<std::string> used_;
  std::map<std::string, std::string> constants_;
};

/// A collective that is planned when the program is bound, or what is made of such plans.
struct EmittedPlan {
  std::string name, call;
  std::vector<LoopId> loops;  // it has a plan for each of their turns, outermost first
  const char* type = "Plan";
};

/// Ranks that work together: those over axes, or of these the ones with some indices.
struct EmittedGroup {
  std::string name;  // "over_data", "over_pipe_at_0_3"
  std::vector<AxisId> axes;
  std::vector<int> indices;  // none: all
};

/// A pipeline that a routine runs: "train_pipeline".
struct EmittedPipeline {
  std::string name;
  const ForStep* loop;
  std::string rows;  // the lists of its ranks: "train_rows"
};

struct EmitContext {
  const Program& program;
  const SourceMap& sources;
  Names names;
  std::vector<Span> sites = {};           // what meshrt::Site::id counts
  std::vector<EmittedGroup> groups = {};  // in the order of first use
  /// Of permutes, by the axes of the group and their order afterwards: "over_x_y_to_y_x".
  std::map<std::pair<std::vector<AxisId>, std::vector<AxisId>>, std::string> partners = {};
  std::vector<std::pair<std::string, std::string>> constants = {};  // of a rank: name, declaration
  /// Of values that come to lie in other parts, by what makes them:
  /// "over_ctx, {{batch}, {seq, {{mesh::ctx}}, {{mesh::ctx}, meshrt::zigzag(4)}}}".
  std::map<std::string, std::string> redistributions = {};
  /// Of dims that loops walk along and ranks own by parts, by what makes them: "layers_over_pipe".
  std::map<std::string, std::string> owners = {};
  std::vector<EmittedPlan> plans = {};
  std::vector<EmittedPipeline> pipelines = {};
  std::map<DimId, std::string> turns_of_stages = {};  // by a loop's dim: which each stage has, where ranks have several
  std::vector<std::pair<RateOp, std::string>> rates = {};  // schedule -> function that gives its rate

  std::vector<LoopId> loops = {};  // under way, outermost first
  /// Of the loops around it whose bodies have a variable with the slot of their turn: the period of the ring that it
  /// is a slot of, or 0 where it is among the rank's own turns.
  std::map<LoopId, int64_t> slots = {};
  /// Of loops whose turn is another one than their variable says, or that have none there: that turn, "l + 1".
  std::map<LoopId, std::string> other_turns = {};
  bool find_nonfinite = false;                         // a check after every step
  std::set<const Step*> meanwhile = {};                // steps with collectives under way
  bool polls = false;                                  // the step being written is one of them
  std::string cause_before = {};                       // of the collective written last
  class Outline* outline = nullptr;                    // nests that are functions
  std::vector<std::string> outlined_extents = {};      // in such a function: what its loops run to, outermost first
  std::map<BufferId, std::string> outlined_rows = {};  // of slices: how far apart their rows are
  std::optional<BufferId> returned = {};               // and the number that it returns

  /// The turn of a loop: "l", or another one.
  const std::string& turn(LoopId) const;
  const Graph& graph() const { return program.sharded.graph; }
  const MeshShape& mesh() const { return program.sharded.layout.mesh; }
  /// The call site of a span, for meshrt::Site.
  int site(Span span);
  /// The name of the group over these axes; of its ranks at `some` coordinates alone.
  std::string group(const std::vector<AxisId>& axes, const Where* some = nullptr);
  /// The name of a constant of the rank: what has this type and value already, else a new one, called so if it can be.
  std::string constant(const std::string& type, const std::string& name, const std::string& value);
  /// The name of the function that gives a schedule's rate at this step.
  const std::string& rate(const RateOp&);
  /// The file without its folder and the line: "gpt.mesh:24"; "" for an unknown span.
  std::string origin(Span) const;
  /// The spec's statement at a span, as one line: "score = dot[head_dim](q, k)"; "" for an unknown span.
  std::string statement(Span) const;
};

/// While it is there, what is written is of the turn that a call of collectives is of; of none the one under way.
class OfItsTurn {
 public:
  OfItsTurn(EmitContext&, std::span<const CollectiveStep> call);
  ~OfItsTurn();
  OfItsTurn(const OfItsTurn&) = delete;
  OfItsTurn& operator=(const OfItsTurn&) = delete;
  /// "if (l > 0) ", where the loop has that turn; "" of the turn under way.
  std::string where;

 private:
  EmitContext& context_;
  LoopId loop_ = {};
};

/// The number as a C++ literal of the type.
std::string literal(double value, Type type);
/// "((l * batch + b) * seq + s) * embed" for the indices of a row-major array and the extents they run over; the first
/// extent is not needed. `scale` multiplies the whole where it is not empty.
std::string horner(const std::vector<std::pair<std::string, std::string>>& indices_and_extents,
                   const std::string& scale = "");
/// The slot of a dim of an access's buffer that loops fix: "l", "2", "(t + 1) % ring".
std::string slot(EmitContext&, const Access&, const FixedDim&);
/// The name of what says who has which slot of a dim that is split so.
const std::string& owners(EmitContext&, DimId, const DimPlacement& split);
/// The name of the table of the turns that each stage of the pipeline over the dim has: "layer_of_stage".
const std::string& turns_of_stages(EmitContext&, DimId);
/// The coordinate that a place means in the turn under way: "2", "layers_over_pipe.owner(layer)".
std::string coordinate(EmitContext&, const Where&);
/// The address of an access without its dims: "wq", "wq + l * (embed * heads)".
std::string address(EmitContext&, const Access&);
/// A single number: "loss", or "*loss" where it has a place in memory.
std::string value(const EmitContext&, BufferId);
/// "Type::f32": the type of its elements.
std::string type_text(const Buffer&);
/// How many elements of an access this rank holds, as C++.
std::string elements(EmitContext&, const Access&);

}  // namespace mesh
