// regions.h: a step cut into regions, what a schedule may execute in another order. A region is a stretch of straight
// code of a body, or a whole loop, whose body is cut into regions again. Each owns four functions, which are labels on
// nodes (Node::region, Node::part):
//   F(in, parameters)    -> out, stash
//   R(in, stash)         -> recomputed
//   I(d_out, stash, recomputed) -> d_in, stash_w
//   W(stash_w)           -> d_parameters
// Everything that goes from one to another is in one of their lists: nothing else has to be kept, or sent.
#pragma once
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

struct Region {
  RegionId id;
  NodeId loop;                               // set: the region is this forward loop
  RegionId around;                           // in whose body it stands; unset in that of the step
  std::array<std::vector<NodeId>, 4> nodes;  // by Part: forward, recompute, input_gradient, weight_gradient
  std::vector<ValueId> in;                   // of F and R, made by those of other regions; also what a turn enters with
  std::vector<ValueId> out;                  // made by F and R, for other regions, the next turn, callers and updates
  std::vector<ValueId> stash;                // made by F or `in`, for R, I and W
  std::vector<ValueId> recomputed;           // made by R or `in`, for I and W
  std::vector<ValueId> d_out;                // made by I of other regions, for I and W
  std::vector<ValueId> d_in;                 // made by I, for I of other regions
  std::vector<ValueId> stash_w;              // not made by W, for W
  std::vector<ValueId> d_parameters;         // made by I or W, for updates, callers, and sums with other regions'

  const std::vector<NodeId>& of(Part part) const { return nodes[static_cast<size_t>(part)]; }
};

/// Labels the nodes of a forward graph; what is made of them keeps the label. Stored tensors, and the numbers that need
/// no operand, belong to no region: they are there wherever they are asked for.
void label_regions(Graph&);

/// By RegionId, in order of execution, a loop before what stands in its body.
std::vector<Region> regions_of(const Graph&);

/// One message a violation, empty where the regions say all that goes from one of their functions to another: every
/// node of F, R, I and W reads what its function has made so far, or what one of its region's lists has; F reads of
/// regions before it alone, R of its own F, I never of W; lists name what there is. Of loops that are `divided` among
/// stages each begins R with what was handed on to it in F: whatever R carries, F does.
std::vector<std::string> verify_regions(
    const Graph&, const std::vector<Region>&,
    const std::function<bool(const LoopOp&)>& divided = [](const LoopOp&) { return false; });

/// Their number; then of each "region 2: repeat layer, F 1 R 0 I 1 W 0" and a line for each list that has values.
std::string print_regions(const Graph&, const std::vector<Region>&);

}  // namespace mesh
