// priced_strategies.h: what the strategies of an op need and give, and what each costs apart from moving operands,
// which depends on the copies that there are.
#pragma once
#include <vector>

#include "codegen/layout/machine.h"
#include "codegen/layout/reshard.h"
#include "codegen/layout/strategy.h"

namespace mesh {

struct PricedStrategy {
  Strategy strategy;
  std::vector<size_t> needs;                  // by operand: which of PricedStrategies::needs
  std::vector<Placement> natural, kept;       // by result: as the op gives it, and as it is kept
  double results = 0, work = 0, waiting = 0;  // seconds: moving results, computing, for what goes round meanwhile
};

struct PricedStrategies {
  std::vector<std::vector<Placement>> needs;  // by operand: all that some strategy needs of it
  std::vector<PricedStrategy> all;
};

PricedStrategies price(const OpContext&, std::vector<Strategy>, const Machine&, ReshardPlanner&);

}  // namespace mesh
