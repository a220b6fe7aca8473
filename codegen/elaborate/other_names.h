// other_names.h: what functions and settings of NumPy, PyTorch and mathematics are written as here.
#pragma once
#include <string_view>
#include <vector>

namespace mesh::elaboration {

/// A function of another library, and how to write it here. What stands in backticks computes the same, of `x`, `y` and
/// other operands: tests run it (tests/acceptance/cures.py).
struct OtherName {
  std::string_view name, written;
};
const std::vector<OtherName>& other_names();

/// Whether two names differ in capitals and underscores alone: `LayerNorm` and `layer_norm`.
bool same_word(std::string_view a, std::string_view b);

/// How to write what other libraries call `name` ("reshape", "MatMul"); empty where there is nothing to say.
std::string_view written_here(std::string_view name);

/// What the setting of an optimizer that others call `name` is called here; empty where there is none.
std::string_view setting_written_here(std::string_view name);

}  // namespace mesh::elaboration
