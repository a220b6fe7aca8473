#include "codegen/program/interpret_rate.h"

#include "codegen/graph/builder.h"
#include "meshrt/rate.h"

namespace mesh {

double learning_rate(const RateOp& rate, const meshrt::StepInput& input) {
  const auto value = [&](const std::string& key) {
    for (const auto& [name, number] : rate.values)
      if (name == key) return number;
    return 0.0;
  };
  const auto top = [&](const std::string& key) { return input.rate >= 0 ? input.rate : value(key); };
  const double steps = value("steps") > 0 ? value("steps") : static_cast<double>(input.steps);
  if (rate.schedule == "constant") return meshrt::constant(top("rate"), input.step);
  if (rate.schedule == "cosine") return meshrt::cosine(top("peak"), value("warmup"), steps, value("floor"), input.step);
  if (rate.schedule == "linear") return meshrt::linear(top("peak"), value("warmup"), steps, value("floor"), input.step);
  if (rate.schedule == "inverse_sqrt") return meshrt::inverse_sqrt(top("peak"), value("warmup"), input.step);
  internal_error("the interpreter has no rate schedule `" + rate.schedule + "`");
}

}  // namespace mesh
