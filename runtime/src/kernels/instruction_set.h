// instruction_set.h: the choice among the variants of a kernel, one an instruction set, by what this machine has.
// MESHRT_ISA_LEVEL=portable|neon|avx2|avx512|avx512_bf16 in the environment chooses another one that it has.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernel_levels.h"
#include "meshrt/narrow.h"

namespace meshrt {

/// Of an architecture each one has more than those before it. avx512_bf16 is for bf16 alone.
enum class InstructionSet : uint8_t { portable, neon, avx2, avx512, avx512_bf16 };
const char* name_of(InstructionSet);

/// Those of MESHRT_VARIANTS.
#if defined(__x86_64__)
inline constexpr std::array kernel_levels = {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512};
#elif defined(__aarch64__)
inline constexpr std::array kernel_levels = {InstructionSet::portable, InstructionSet::neon};
#else
inline constexpr std::array kernel_levels = {InstructionSet::portable};
#endif

/// The best set that this machine has.
InstructionSet supported_instruction_set();

/// The set whose kernels run: the fastest that this machine has, or the environment's. Throws Failure for a level that
/// is unknown or missing.
InstructionSet instruction_set();

/// Whether the processor has a unit for products of bf16 (AMX), which the system may yet forbid.
bool processor_has_amx();

/// The name of the variants for this machine.
std::string own_name();

/// What becomes of numbers of 16 bits that are multiplied: ", bf16 widened, f16 widened" to f32, or of bf16 what
/// `by_pairs` says, where there is an instruction for pairs of it.
std::string text_of(Narrow narrow, const std::string& by_pairs);

/// The variant for this machine: choose<Kernel>(MESHRT_VARIANTS(multiply<float>)).
template <class Kernel>
Kernel choose(const Kernel (&variants)[kernel_levels.size()]) {
  size_t best = 0;
  while (best + 1 < kernel_levels.size() && kernel_levels[best + 1] <= instruction_set()) ++best;
  return variants[best];
}

}  // namespace meshrt
