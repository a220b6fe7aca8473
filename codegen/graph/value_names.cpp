#include "codegen/graph/value_names.h"

namespace mesh {

namespace {

bool is_call(const std::string& name, const std::string& function, std::string* argument) {
  if (!name.starts_with(function + "(") || !name.ends_with(")")) return false;
  if (argument) *argument = name.substr(function.size() + 1, name.size() - function.size() - 2);
  return true;
}

}  // namespace

std::string gradient_name(const std::string& path) { return "grad(" + path + ")"; }
bool is_gradient_name(const std::string& name, std::string* path) { return is_call(name, "grad", path); }
bool is_parameter_name(const std::string& name, std::string* path) { return is_call(name, "param", path); }

}  // namespace mesh
