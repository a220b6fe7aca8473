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
std::vector<Variant<Kernel>> variants(Kernel portable, Kernel avx2, Kernel avx512) {
  std::vector<Variant<Kernel>> all = {{"portable", portable}};
  if (instruction_set() >= InstructionSet::avx2) all.push_back({"avx2", avx2});
  if (instruction_set() >= InstructionSet::avx512) all.push_back({"avx512", avx512});
  return all;
}

}  // namespace meshrt
