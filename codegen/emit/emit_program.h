// emit_program.h: one rank's program written down as C++ that a person reads: a file that includes only meshrt, with
// dims, memory, functions and a short main. The same input gives the same bytes.
#pragma once
#include <string>

#include "codegen/program/program.h"
#include "frontend/source.h"

namespace mesh {

struct EmitOptions {
  std::string spec;             // the spec's file name, without its folder: "gpt.mesh"
  std::string spec_hash;        // see Compiled
  std::string command;          // how to make the file again, without folders: "meshc build gpt.mesh --mesh data=2"
  std::string version;          // of meshc
  std::string precision;        // "f32", "f64" or what the spec calls one
  bool find_nonfinite = false;  // every value is looked at as it is made, see meshrt/finite.h
};

/// The text of the file. `sources` must hold what the program's spans point into.
std::string emit_program(const Program&, const SourceMap& sources, const EmitOptions&);

}  // namespace mesh
