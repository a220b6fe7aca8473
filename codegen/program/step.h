// step.h: what a step must say about itself where no pass knows it by a type of its own: what it is checked for, how it
// is printed, emitted and interpreted. A field that is left out does not compile.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "codegen/graph/op.h"
#include "codegen/program/program.h"

namespace mesh {

struct Binding;
struct EmitContext;
class CppWriter;

struct StepDefinition {
  Said<std::string_view> name;
  /// It takes no longer than a collective may wait: see program/combine.h.
  Said<bool> is_light;
  /// It is computed by what runs convolutions, which a program tells.
  Said<bool> convolves;
  /// As dumps and errors print it, in a line.
  Said<std::string (*)(const Program&, const DefinedStep&)> text;
  /// Says what is wrong with it. That it reads and writes equal parts of each dim is checked for all steps.
  Said<void (*)(const Program&, const DefinedStep&, const std::function<void(const std::string&)>& say)> verify;
  /// What it works on, with local shapes: a comment of the emitted program (emit/emit_steps.h).
  Said<std::string (*)(const EmitContext&, const DefinedStep&)> shapes;
  /// Its C++.
  Said<void (*)(EmitContext&, CppWriter&, const DefinedStep&)> emit;
  /// What the interpreter does for it (interpret/steps.h).
  Said<std::function<void()> (*)(Binding&, const DefinedStep&)> bind;
};

}  // namespace mesh
