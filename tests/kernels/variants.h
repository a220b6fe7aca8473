// variants.h: the kernel variants that this machine can run.
#pragma once
#include <vector>

#include "kernels/instruction_set.h"

namespace meshrt {

template <class Kernel>
struct Variant {
  const char* name;
  Kernel run;
};

/// variants<Kernel>(MESHRT_VARIANTS(multiply<float>))
template <class Kernel>
std::vector<Variant<Kernel>> variants(const Kernel (&of_level)[kernel_levels.size()]) {
  std::vector<Variant<Kernel>> all;
  for (size_t i = 0; i < kernel_levels.size() && kernel_levels[i] <= instruction_set(); ++i)
    all.push_back({name_of(kernel_levels[i]), of_level[i]});
  return all;
}

}  // namespace meshrt
