// load_parameters.h: parameters from a safetensors file in place of their initial values.
#pragma once
#include <span>
#include <string>

#include "meshrt/program.h"
#include "meshrt/rank.h"

namespace meshrt {

/// Sets every parameter of `tensors` from the file's tensor of the same name; floats are rounded to the parameter's
/// type. Collective; rank 0 reads. Throws Failure (Cause::data) that lists tensors that are missing or have another
/// shape, before anything is changed.
void load_parameters(Rank&, std::span<Tensor> tensors, const std::string& path);

}  // namespace meshrt
