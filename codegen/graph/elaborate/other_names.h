// other_names.h: what functions and settings of NumPy, PyTorch and mathematics are written as here.
#pragma once
#include <string_view>

namespace mesh::elaboration {

/// How to write what other libraries call `name` ("reshape", "matmul"); empty where there is nothing to say.
std::string_view written_here(std::string_view name);

/// What the setting of an optimizer that others call `name` is called here; empty where there is none.
std::string_view setting_written_here(std::string_view name);

}  // namespace mesh::elaboration
