#include "codegen/layout/priced_strategies.h"

#include <algorithm>
#include <limits>

#include "codegen/layout/balance.h"
#include "codegen/layout/cost.h"

namespace mesh {
namespace {

class Pricing {
 public:
  Pricing(const OpContext& op, const Machine& machine, ReshardPlanner& planner)
      : op_(op), machine_(machine), planner_(planner), flops_(definition(op.node.op).flops(op.graph, op.node)) {
    priced_.needs.resize(op.operands.size());
  }

  PricedStrategies run(std::vector<Strategy> strategies) {
    planner_.count(2 * static_cast<int64_t>(strategies.size()));
    for (Strategy& strategy : strategies) add(std::move(strategy));
    return std::move(priced_);
  }

 private:
  void add(Strategy strategy) {
    rings_.clear();
    bytes_ = 0;
    PricedStrategy one{std::move(strategy), {}, {}, {}};
    for (size_t i = 0; i < op_.operands.size(); ++i) needs(one, i);
    for (size_t r = 0; r < op_.declared.size(); ++r) gives(one, r);
    double share = 1;
    for (const auto& axes : one.strategy.factor_axes) share *= static_cast<double>(op_.mesh.size(axes));
    if (!one.needs.empty())
      share /= largest_share(op_.graph, op_.mesh, op_.node, op_.factors, priced_.needs[0][one.needs[0]]);
    one.work = compute_seconds(machine_, definition(op_.node.op).effort(op_.node.op), type_of_work(op_.graph, op_.node),
                               flops_ / share, touched_bytes(op_.graph, op_.node, bytes_));
    one.waiting = ring_wait(machine_, op_.mesh, rings_, one.work);
    priced_.all.push_back(std::move(one));
  }

  void needs(PricedStrategy& one, size_t operand) {
    const ValueType& type = op_.graph.type(op_.node.inputs[operand]);
    Placement required = one.strategy.required(op_, operand);
    add_ring(type, required);
    bytes_ += static_cast<double>(local_bytes(op_.graph, op_.mesh, type, required));
    std::vector<Placement>& all = priced_.needs[operand];
    const auto at = std::ranges::find(all, required);
    one.needs.push_back(static_cast<size_t>(at - all.begin()));
    if (at == all.end()) all.push_back(std::move(required));
  }

  void gives(PricedStrategy& one, size_t result) {
    const ValueType& type = op_.graph.type(op_.node.results[result]);
    Placement given = one.strategy.natural(op_, result);
    const Placement natural = given.without_circulation();
    Placement kept = target(op_.bound[result], natural);
    add_ring(type, given);
    const auto& path = planner_.plan(type, natural, kept);
    one.results += path ? path->seconds : std::numeric_limits<double>::infinity();
    bytes_ += static_cast<double>(local_bytes(op_.graph, op_.mesh, type, natural));
    // A partial value must be completed some time, a term as its sum is; one that only some ranks hold comes to all.
    Placement complete = kept.is_partial() && op_.summed[result] ? target(op_.declared[result], kept) : kept;
    complete.partial.clear();
    hold_everywhere(complete);
    if (complete != kept) one.results += planner_.plan(type, kept, complete)->seconds;
    one.natural.push_back(std::move(given));
    one.kept.push_back(std::move(kept));
  }

  /// How the parts of a value go round while the op works on them, if they do.
  void add_ring(const ValueType& type, const Placement& circulating) {
    if (!circulating.circulates()) return;
    const auto& path = planner_.plan(type, circulating.without_circulation(), circulating);
    rings_.push_back(&path->steps.front());
  }

  const OpContext& op_;
  const Machine& machine_;
  ReshardPlanner& planner_;
  const double flops_;
  PricedStrategies priced_;
  std::vector<const ReshardStep*> rings_;  // of the strategy that is looked at
  double bytes_ = 0;                       // that it touches
};

}  // namespace

PricedStrategies price(const OpContext& op, std::vector<Strategy> strategies, const Machine& machine,
                       ReshardPlanner& planner) {
  return Pricing(op, machine, planner).run(std::move(strategies));
}

}  // namespace mesh
