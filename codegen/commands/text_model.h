// text_model.h: what `meshc generate` and `meshc score` have in common: a trained model that reads text, as a program
// that is built and kept or, under --interpret, interpreted.
#pragma once
#include <functional>
#include <span>
#include <string>

#include "codegen/commands/model_options.h"
#include "codegen/commands/session.h"
#include "meshrt/generation.h"

namespace mesh {

class TextModel {
 public:
  using Run = int (*)(meshrt::Rank&, meshrt::Program&, const meshrt::RunFile&, const meshrt::ModelFiles&,
                      const meshrt::GenerateRequest&, bool json, const meshrt::DriverOptions&);

  using Check = void (*)(const meshrt::ProgramInfo&, std::span<const meshrt::Tensor>, const meshrt::RunFile&,
                         const meshrt::GenerateRequest&);

  /// Declares the options of a spec, a model, the output, and these.
  void declare(CLI::App&, std::span<const meshrt::GenerateOption>);
  /// `PROGRAM word` for so many texts side by side, of `width` sequences each, at most for the batch of the spec: more
  /// go in rounds. `run` is what the word does, `check` what can be wrong with the texts before it is built. The exit
  /// code.
  int start(const char* word, Run run, size_t texts, size_t width = 1, Check check = nullptr);

  meshrt::GenerateRequest request;

 private:
  OutputOptions output_;
  SpecOptions spec_;
  ModelOptions model_;
  bool interpret_ = false;
};

}  // namespace mesh
