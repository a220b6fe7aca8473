// model_options.h: --params, --fresh and --names: which parameters a command reads that does not train.
#pragma once
#include <string>
#include <vector>

#include "meshrt/driver.h"

namespace CLI {  // NOLINT(readability-identifier-naming): it is the library's
class App;
}

namespace mesh {

struct ModelOptions {
  meshrt::ModelFiles files;
  void declare(CLI::App&);
  /// The same for a program that meshc has built.
  std::vector<std::string> words() const;
};

}  // namespace mesh
