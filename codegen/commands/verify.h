// verify.h: the parts of `meshc verify`, of which a test makes one that puts faults into programs.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/commands/options.h"
#include "codegen/interpret/compare.h"

namespace mesh {

struct VerifyOptions {
  OutputOptions output;
  SpecOptions spec;
  CompareOptions compare;
  void declare(CLI::App&);
};

struct ComparedPrograms {
  Program program, reference;  // under the layout, and of one rank
  std::string title;           // "layout both: 4 ranks against one, f64"
};
/// Both keep the values that `wanted` matches, and all gradients. Nothing where the spec has errors, which are told.
std::optional<ComparedPrograms> compile_both(const VerifyOptions&, std::vector<std::string> wanted);
/// The reference, of which each step takes gradients that are given (by_gradients.h).
std::optional<Program> compile_driven(const VerifyOptions&, std::vector<std::string> wanted);

/// Prints the table, or JSON. Gives the exit code.
int report(const Comparison&, const std::string& title, const OutputOptions&);

}  // namespace mesh
