// plan_pipeline.h: what `meshc plan` says of a pipeline: the time, the waiting and the memory of each stage, and what
// goes from stage to stage.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codegen/layout/predict_pipeline.h"

namespace mesh {

nlohmann::ordered_json pipeline_json(const ShardedGraph&, const PlannedPipeline&);
/// A row of headings, then one for each stage, or rank that has several: turns, times, what it holds.
std::vector<std::vector<std::string>> stage_rows(const ShardedGraph&, const PlannedPipeline&);
/// With an empty line in front.
std::string pipeline_text(const ShardedGraph&, const PlannedPipeline&);

}  // namespace mesh
