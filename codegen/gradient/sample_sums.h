// sample_sums.h: which values of a graph belong to single samples, and which are sums over samples: what a step by
// micro-batches (micro_batches.h) must know before it changes anything.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/graph/op.h"

namespace mesh {

/// What a value is while only some samples have been seen: `whole` does not depend on them; `sliced` has the sample
/// dim; `zero` is what a sum begins with before anything is added to it, and counts as whole where it stays so; the
/// others are known completely when all samples have been through.
enum class SampleKind : uint8_t { whole, sliced, zero, sum, max, min };

/// What the samples of a batch in so many parts are called: by `samples`, then by what renames give them, by what is
/// made one dim of samples, slowest, and others, and by chunks that are split off, of which each part has equally many
/// whole ones. No value has two of the names, so that it is of single samples still, or of chunks.
std::vector<DimId> names_of_samples(const Graph&, DimId samples, int64_t parts);
/// The same without chunks: of single samples.
std::vector<DimId> names_of_samples(const Graph&, DimId samples);

class SampleSums {
 public:
  /// `names`: what the samples are called, names_of_samples.
  SampleSums(const Graph&, const std::vector<DimId>& names);

  /// Root nodes that must run once for each part of the samples, in order.
  const std::vector<NodeId>& inside() const { return inside_; }
  bool is_inside(NodeId id) const { return inside_set_.contains(id); }
  /// How a root value lacking the sample dim adds up over parts; `whole` where it does not.
  SampleKind adds_up(ValueId id) const;
  /// What a root node reads of the root, of a loop with all that its body reads from outside.
  std::vector<ValueId> reads(NodeId) const;
  /// Whether a value of the root depends on anything but inputs.
  bool is_trained(ValueId id) const { return trained_.contains(id); }
  /// A node that needs all samples at once, and in what way; the first one found.
  struct Coupled {
    NodeId node;
    std::string why;
    bool beside = false;    // a loop has both samples and what has none: in loops of their own there is no such need
    std::string cure = {};  // what else would do
  };
  const std::optional<Coupled>& coupled() const { return coupled_; }
  /// Whether there is one part, which has all samples: what needs them all at once runs once with the others.
  bool one_part() const { return one_part_; }

 private:
  bool touches(NodeId) const;
  void node(NodeId);
  void loop(const LoopOp&, NodeId);
  void op(NodeId);
  std::optional<SampleKind> reduced(NodeId, size_t result);
  SampleKind passed_on(NodeId);
  void uses_early(NodeId);
  std::set<NodeId> between() const;
  void couple(NodeId, std::string why, bool beside = false, std::string cure = {});
  void couple_merged(NodeId, const Regrouping&);
  bool is_name(DimId dim) const;
  bool has_samples(ValueId id) const;
  bool is_zero(ValueId id) const;
  bool is_within_chunks(const Node&, const Factor&) const;

  const Graph& graph_;
  std::vector<DimId> names_;
  std::vector<SampleKind> kinds_;          // as later nodes of the same body see them
  std::map<ValueId, SampleKind> adds_up_;  // root values that are complete after the loop
  std::vector<NodeId> inside_;
  std::set<NodeId> inside_set_;
  std::set<ValueId> trained_;
  std::optional<Coupled> coupled_;
  bool one_part_;
  bool needs_all_ = false;  // the node under way, of the one part
};

}  // namespace mesh
