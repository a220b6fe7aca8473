// trials.h: what rules would cost: the layout that a set of them makes is resolved, placed and lowered as any other is,
// and its step timed as `meshc plan` does. What several sets share (the graph with its gradients, ways of movements) is
// made once.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "codegen/layout/graph_facts.h"
#include "codegen/layout/resolve.h"
#include "codegen/program/exposed.h"
#include "codegen/search/found_rules.h"

namespace mesh {

/// What a search is for: a model's training step under a layout that says `auto`.
struct SearchRequest {
  const SourceProgram& program;
  const Graph& model;  // as it is elaborated, for the training step
  const Graph& step;   // the same, or of replicas that train apart the model of one
  const LayoutOptions& options;
  const Machine& machine;
  std::optional<int64_t> memory;  // of a rank, bytes
  SourceMap& sources;
};

/// What is known of a set of rules after a first look: one walk over the graph, nothing lowered.
struct Estimate {
  double seconds;
  int64_t stored;  // bytes of parameters, moments, states and inputs of the largest rank
};

/// As `plan` tells it.
struct Outcome : StepCost {
  std::vector<Placement> placements;
};

class Trials {
 public:
  explicit Trials(const SearchRequest&);

  /// The layout with these rules in place of `auto`. Nothing where a rule means nothing, has no effect, or two of
  /// them clash, which goes to the sink.
  std::optional<Layout> layout(const FoundRules&, DiagnosticSink&);
  bool legal(const FoundRules&);
  /// Nothing for rules that no layout may have.
  std::optional<Estimate> estimate(const FoundRules&);
  /// Null for rules that no layout may have, or that the compiler cannot follow.
  const Outcome* outcome(const FoundRules&);

  /// Of rules that were tried: the same with `owns: "zigzag"` behind those of dims whose pairs a mask takes away
  /// unevenly (Factor::band), of each such mask or several.
  std::vector<FoundRules> dealt(const FoundRules&);

  /// Steps of placing and lowering so far (ReshardPlanner::work): the same on every machine.
  int64_t work() const;
  int64_t work_of_estimate() const { return 3 * std::max<int64_t>(nodes_, 1) + work_of_rules(); }
  /// Sets of rules that were looked at.
  size_t tried() const { return estimates_.size() + outcomes_.size() - twice_; }
  int64_t nodes() const { return nodes_; }

  /// Of a node: to make its gradients, to lower it; in all until there is a program.
  static constexpr int64_t steps_of_gradients = 5, steps_of_lowering = 30, steps_of_outcome = 100;

 private:
  /// The step up to its placements, for all layouts of which its passes ask the same.
  struct Prepared {
    struct Asked {
      std::vector<DimId> dims;
      DimId dim, beside;
      bool answer;
    };
    std::vector<Asked> asked;                     // whether the layout may split them (rewrites/recognise.h)
    std::string others;                           // what else of the layout they read
    std::optional<Graph> graph;                   // nothing: it cannot be
    std::set<std::set<std::string>> banded = {};  // dims along which ops work on pairs beside a diagonal alone
    struct OnMesh {
      std::unique_ptr<MeshShape> mesh;
      std::shared_ptr<GraphFacts> facts;
    };
    std::map<std::string, OnMesh> meshes = {};  // by their axes
  };
  Prepared& prepared(const Layout&);
  std::string others_of(const Layout&) const;
  std::shared_ptr<GraphFacts> facts(Prepared&, const MeshShape&) const;
  int64_t work_of_rules() const { return static_cast<int64_t>(request_.model.nodes.size()) / 3; }
  std::optional<Estimate> placed(const FoundRules&);
  std::optional<Outcome> compiled(const FoundRules&);

  const SearchRequest request_;
  std::list<Prepared> prepared_;
  std::map<FoundRules, std::optional<Estimate>> estimates_;
  std::map<FoundRules, std::optional<Outcome>> outcomes_;
  size_t twice_ = 0;
  int64_t work_ = 0, nodes_ = 0;  // of work what is not done by a planner
};

}  // namespace mesh
