#include "codegen/interpret/rate.h"

#include "codegen/graph/builder.h"
#include "meshrt/rate.h"

namespace mesh {

namespace {

double factor_at(const Schedule& schedule, const meshrt::StepInput& input) {
  const auto top = [&](const std::string& key) {
    return schedule.of_run && input.rate >= 0 ? input.rate : schedule.value(key);
  };
  const double warmup = schedule.value("warmup"), hold = schedule.value("hold"), floor = schedule.value("floor");
  const double steps = schedule.value("steps") > 0 ? schedule.value("steps") : static_cast<double>(input.steps);
  if (schedule.name == "constant") return warmup > 0 ? meshrt::constant(top("rate"), warmup, input.step) : top("rate");
  if (schedule.name == "cosine") return meshrt::cosine(top("peak"), warmup, steps, floor, input.step);
  if (schedule.name == "linear") return meshrt::linear(top("peak"), warmup, steps, floor, input.step);
  if (schedule.name == "inverse_sqrt")
    return hold > 0 ? meshrt::held_inverse_sqrt(top("peak"), hold, input.step)
                    : meshrt::inverse_sqrt(top("peak"), warmup, input.step);
  if (schedule.name == "step")
    return meshrt::stepped(top("peak"), warmup, schedule.value("every"), schedule.value("factor"),
                           schedule.value("times"), input.step);
  internal_error("the interpreter has no rate schedule `" + schedule.name + "`");
}

}  // namespace

double learning_rate(const RateOp& rate, const meshrt::StepInput& input) {
  double product = factor_at(rate.factors.front(), input);
  for (size_t i = 1; i < rate.factors.size(); ++i) product *= factor_at(rate.factors[i], input);
  return product;
}

}  // namespace mesh
