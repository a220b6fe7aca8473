// model_arrays.h: parameters and states from files, as whole arrays.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "meshrt/driver.h"
#include "meshrt/npy.h"

namespace mesh {

std::vector<std::string> parameter_paths(const Graph&);

/// Every parameter of the model must be in one of the files, but for fresh ones, and in a checkpoint every state, but
/// for those that are `begun` otherwise. What else is there is named and left. Throws meshrt::Failure (Cause::data).
std::map<std::string, meshrt::Array> read_model(const meshrt::ModelFiles&, const Graph&,
                                                const std::set<std::string>& begun);

}  // namespace mesh
