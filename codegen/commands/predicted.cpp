#include "codegen/commands/predicted.h"

#include <fmt/format.h>

#include "codegen/commands/command.h"
#include "codegen/graph/value_names.h"
#include "meshrt/driver.h"

namespace mesh {

ValuesEntry predicted(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (is_gradient_name(name) || is_parameter_name(name))
      throw UsageError(fmt::format("`{}` is no value of samples: `meshc fetch` gives gradients and parameters", name));
  return {meshrt::predict_entry, names, true};
}

}  // namespace mesh
