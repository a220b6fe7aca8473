#include "codegen/program/interpret_rate.h"

#include <algorithm>

#include "codegen/graph/builder.h"
#include "meshrt/math.h"

namespace mesh {

namespace {

double value_of(const RateOp& rate, const std::string& key) {
  for (const auto& [name, value] : rate.values)
    if (name == key) return value;
  return 0;
}

}  // namespace

double learning_rate(const RateOp& rate, const meshrt::StepInput& input) {
  const auto spec_or = [&](const std::string& key) { return input.rate >= 0 ? input.rate : value_of(rate, key); };
  if (rate.schedule == "constant") return spec_or("rate");
  if (rate.schedule != "cosine") internal_error("the interpreter has no rate schedule `" + rate.schedule + "`");
  const double peak = spec_or("peak"), floor = value_of(rate, "floor"), warmup = value_of(rate, "warmup");
  const double steps = value_of(rate, "steps") > 0 ? value_of(rate, "steps") : static_cast<double>(input.steps);
  const auto step = static_cast<double>(input.step);
  if (step <= warmup) return peak * step / warmup;
  const double done = steps > warmup ? std::min(1.0, (step - warmup) / (steps - warmup)) : 1.0;
  return floor + (peak - floor) * (1 + meshrt::cos(3.14159265358979323846 * done)) / 2;
}

}  // namespace mesh
