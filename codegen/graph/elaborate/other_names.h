// other_names.h: what functions of NumPy, PyTorch and mathematics are written as here.
#pragma once
#include <string_view>

namespace mesh::elaboration {

/// How to write what other libraries call `name` ("reshape", "matmul"); empty where there is nothing to say.
std::string_view written_here(std::string_view name);

}  // namespace mesh::elaboration
