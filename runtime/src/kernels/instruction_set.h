// instruction_set.h: the choice among the variants of a kernel, one an instruction set, by what this machine has.
// MESHRT_ISA_LEVEL=portable|avx2|avx512|avx512_bf16 in the environment chooses another one that it has.
#pragma once
#include <cstdint>
#include <string>

#include "meshrt/narrow.h"

namespace meshrt {

enum class InstructionSet : uint8_t { portable, avx2, avx512, avx512_bf16 };  // the last for bf16 alone

/// The best set that this machine has.
InstructionSet supported_instruction_set();

/// The set whose kernels run: the fastest that this machine has, or the environment's. Throws Failure for a level that
/// is unknown or missing.
InstructionSet instruction_set();

/// Whether the processor has a unit for products of bf16 (AMX), which the system may yet forbid.
bool processor_has_amx();

/// What becomes of numbers of 16 bits that are multiplied: ", bf16 widened, f16 widened" to f32, or of bf16 what
/// `by_pairs` says, where there is an instruction for pairs of it.
std::string text_of(Narrow narrow, const std::string& by_pairs);

#if defined(__x86_64__)
#define MESHRT_VARIANTS(...) portable::__VA_ARGS__, avx2::__VA_ARGS__, avx512::__VA_ARGS__
#else
#define MESHRT_VARIANTS(...) portable::__VA_ARGS__, portable::__VA_ARGS__, portable::__VA_ARGS__
#endif

/// The variant for this machine: choose<Kernel>(MESHRT_VARIANTS(multiply<float>)).
template <class Kernel>
Kernel choose(Kernel portable, Kernel avx2, Kernel avx512) {
  switch (instruction_set()) {
    case InstructionSet::avx512_bf16:
    case InstructionSet::avx512: return avx512;
    case InstructionSet::avx2: return avx2;
    case InstructionSet::portable: break;
  }
  return portable;
}

}  // namespace meshrt
