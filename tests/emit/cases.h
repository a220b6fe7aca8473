// cases.h: the programs that are emitted, compiled and compared with the interpreter: small sizes of the specs, under
// layouts that bring every collective, even and uneven.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codegen/compile.h"

namespace mesh::tests {

struct Case {
  std::string name;  // a C++ identifier
  std::string spec;  // path below the root of the project
  std::string layout;
  std::map<std::string, int64_t> mesh;
  std::map<std::string, std::string> set;
  std::string precision = "f32", model = "";
  std::vector<std::string> watch = {};
  std::vector<ValuesEntry> entries = {};
  Program (*change)(Program) = nullptr;  // what tests make of the lowered program, which gives the same numbers
  std::string layouts = {};              // path of a file with more layouts
  std::string machine = {};              // path of its description; empty: the generic one
};
const std::vector<Case>& cases();

/// The compiled case; throws with the messages where the spec has errors.
Compiled compiled(const Case&, SourceMap&);
/// The C++ of it.
std::string emitted(const Case&);

}  // namespace mesh::tests
