// report.h: what `meshc bench` has found, for people and as JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codegen/commands/bench/advice.h"

namespace mesh {

struct Benched {
  std::string program;
  Trial trial;
  OnMachine planned;
  bool measured_machine;  // else it is the one that was named
  std::vector<Advice> advice;
};

std::string bench_text(const Benched&, bool colored);
/// schema, layout, mesh, machine, steps, seconds_per_step, model_flops, utilisation, doubts, breakdown, ranks,
/// predicted, lines, advice: one JSON object. Times are seconds of a step.
nlohmann::ordered_json bench_json(const Benched&);

}  // namespace mesh
