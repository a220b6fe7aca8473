// other_names.h: what functions and settings of NumPy, PyTorch and mathematics are written as here.
#pragma once
#include <optional>
#include <string>
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

/// Which of `names`, of the settings of an optimizer or the arguments of a function, is meant by one that is not among
/// them: what other libraries call so, or else the nearest.
std::optional<std::string> setting_meant(std::string_view name, const std::vector<std::string>& names);

}  // namespace mesh::elaboration
