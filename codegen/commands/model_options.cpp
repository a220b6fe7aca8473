#include "codegen/commands/model_options.h"

#include <CLI/CLI.hpp>

namespace mesh {

void ModelOptions::declare(CLI::App& app) {
  CLI::Option* params = app.add_option("--params", files.paths,
                                       "the parameters, and the states that were saved with them: a file, or a "
                                       "checkpoint; of several, each has its own")
                            ->type_name("FILE.safetensors")
                            ->take_all()
                            ->allow_extra_args(false)
                            ->check(CLI::ExistingPath);
  app.add_option("--fresh", files.fresh,
                 "parameters that begin as the spec says, whether the files have them or not: a path or pattern")
      ->type_name("PATTERN")
      ->take_all()
      ->allow_extra_args(false)
      ->needs(params);
  app.add_option("--names", files.names, "a YAML map: what the parameters are called there")
      ->type_name("FILE.yaml")
      ->check(CLI::ExistingFile)
      ->needs(params);
}

std::vector<std::string> ModelOptions::words() const {
  std::vector<std::string> words;
  for (const std::string& path : files.paths) words.push_back("--params=" + path);
  for (const std::string& pattern : files.fresh) words.push_back("--fresh=" + pattern);
  if (!files.names.empty()) words.push_back("--names=" + files.names);
  return words;
}

}  // namespace mesh
