// value_names.h: how values are called that a spec does not name itself: `grad(PATH)`, `param(PATH)`.
#pragma once

#include <string>

namespace mesh {

/// How the gradient of the parameter with this path is called.
std::string gradient_name(const std::string& path);
/// Whether a wanted name is `grad(...)` or `param(...)`; `path` is then what stands in the brackets.
bool is_gradient_name(const std::string& name, std::string* path = nullptr);
bool is_parameter_name(const std::string& name, std::string* path = nullptr);

}  // namespace mesh
