// emitted_functions.h: the loops that write_functions.cpp writes.
#pragma once
#include <cstdint>
#include <vector>

#include "codegen/interpret/functions.h"

struct EmittedFunction {
  mesh::MapFunction function;
  meshrt::Type operand, result;
  mesh::ChunkFunction loop;
};
const std::vector<EmittedFunction>& emitted_functions();
