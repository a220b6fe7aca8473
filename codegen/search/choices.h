// choices.h: the rules that a search may write: for each dim, and for parameters and moments apart, the lists of axes
// that may split it.
#pragma once
#include <string>
#include <vector>

#include "codegen/layout/mesh.h"
#include "codegen/search/found_rules.h"

namespace mesh {

/// What one rule may say; or nothing.
struct Slot {
  std::string scope;
  std::vector<std::string> dims;
  FoundRules choices;
};

class Choices {
 public:
  /// `written`: the layout as it stands, whose rules are kept: what they place is no slot.
  Choices(const Graph& model, const Layout& written);

  const std::vector<Slot>& slots() const { return slots_; }
  /// Ways to save memory at the cost of time: micro-batches, turns that are computed again, gradients in parts.
  const std::vector<Slot>& savings() const { return savings_; }
  const std::vector<std::string>& axes() const { return axes_; }
  /// The samples over one axis, and over all of them.
  FoundRules of_samples() const;

  /// The rules with this one in place of what they say of the same slot: as they are, with it or the others keeping off
  /// the axes that both want. Which of them a layout may have is not asked.
  std::vector<FoundRules> with(const FoundRules&, const FoundRule&) const;
  FoundRules without(const FoundRules&, const Slot&) const;
  /// So many sets of rules are there, about.
  double count() const;

 private:
  void add_dims(const Graph&);
  void add_pipelines(const Graph&);
  void add_savings(const Graph&);
  FoundRules choices_of(const Graph&, const std::string& scope, const std::vector<DimId>&) const;
  FoundRules in_order(FoundRules) const;

  const Layout& written_;
  std::vector<std::string> axes_;  // of more than one rank, of which no copies are wanted
  std::vector<AxisId> ids_;
  std::vector<std::string> dims_;  // in the order of the spec
  std::string samples_;            // the dim of samples; "": there is none
  std::vector<Slot> slots_, savings_;
};

}  // namespace mesh
