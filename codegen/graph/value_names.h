// value_names.h: how values are called that a spec does not name itself: `grad(PATH)`, `param(PATH)`, `PATH.replica`.
#pragma once

#include <string>

namespace mesh {

/// Whether a wanted name is `grad(...)` or `param(...)`; `path` is then what stands in the brackets.
bool is_gradient_name(const std::string& name, std::string* path = nullptr);
bool is_parameter_name(const std::string& name, std::string* path = nullptr);

/// Behind a parameter's path: the tensor of what each replica has of it (gradient/replicas.h).
inline constexpr const char* replica_suffix = ".replica";

}  // namespace mesh
