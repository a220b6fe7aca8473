// strategy.h: the ways to split one op over the mesh. Each mesh axis splits one of the op's factors, or none, or (where
// the op is linear) carries a partial sum through.
#pragma once
#include <optional>
#include <vector>

#include "codegen/graph/op.h"
#include "codegen/layout/declared.h"
#include "codegen/layout/margins.h"
#include "codegen/layout/placement.h"

namespace mesh {

/// How the values around an op lie, and what is decided of them, when its strategy is chosen.
struct Surroundings {
  std::vector<std::optional<Placement>> operands;  // nothing: a free value, made wherever it is needed
  std::vector<DeclaredAxes> declared;              // by result: what claims axes for its dims
  std::vector<DeclaredAxes> bound;                 // by result: what of that it must have
  std::vector<bool> summed;                        // by result: its sum is completed in its place
  std::vector<Where> must_lie;                     // the coordinates at which the op is computed, of these axes
  std::vector<AxisId> in_ring;                     // over which rules split what is to go round (Factor::circulates)
  bool stretches = false;                          // as it is decided (Decisions::stretches)
  bool operator==(const Surroundings&) const = default;
};

struct OpContext : Surroundings {
  const Graph& graph;
  const MeshShape& mesh;
  const Node& node;
  const std::vector<Factor>& factors;
  const Margins& margins;  // with which operands are read
};

struct Strategy {
  std::vector<std::vector<AxisId>> factor_axes;  // by factor, major first
  std::vector<Deal> factor_deals;                // by factor: how it is dealt to them
  std::vector<AxisId> passing;                   // axes over which a partial operand stays partial
  std::vector<Where> staying;                    // the op is computed where its operands lie, and only there
  std::vector<AxisId> joining = {};  // of `passing`, axes at whose coordinates operands lie: each a term of a sum

  Deal deal_along(const OpContext&, size_t factor, DimId, const std::vector<Stretch>& at, size_t which) const;
  /// What the op needs of operand i.
  Placement required(const OpContext&, size_t operand) const;
  /// What it gives as result r: contracted factors leave partial values.
  Placement natural(const OpContext&, size_t result) const;

 private:
  std::vector<int64_t> meetings(const OpContext&, size_t factor) const;
};

/// What a result is kept as: ruled dims as ruled, the others as the op gives them.
Placement target(const DeclaredAxes&, const Placement& natural);

/// What an op's operand must be so that its one result has placement `result`, where factors correspond; of dims that
/// it merges the slowest has the merged one's axes.
Placement operand_placement(const Graph&, const Node&, size_t operand, const Placement& result);
/// How the operand of a rename, split or merge lies where its result does so; nothing where that cannot be said.
std::optional<Placement> before_view(const Graph&, const MeshShape&, const Node& view, const Placement& result);

/// All strategies worth comparing, in a fixed order; on equal cost the first is taken.
std::vector<Strategy> strategies(const OpContext&);

/// Those that differ from one in what a single axis splits: any factor that can be split.
std::vector<Strategy> neighbours(const OpContext&, const Strategy&);

}  // namespace mesh
