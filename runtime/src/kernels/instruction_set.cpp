#include "instruction_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <string>

#include "meshrt/failure.h"
#include "product_table.h"

namespace meshrt {
namespace {

InstructionSet supported() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // The levels x86-64-v4 and x86-64-v3, for which the variants are compiled.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
  if (v4 && __builtin_cpu_supports("avx512bf16")) return InstructionSet::avx512_bf16;
  if (v4) return InstructionSet::avx512;
  if (v3) return InstructionSet::avx2;
#endif
  return InstructionSet::portable;
}

/// Whether vdpbf16ps is faster than widening: from Sapphire Rapids on, Intel's processors execute one in two cycles,
/// half as many multiplications a second as in f32; AMD's (from Zen 4 on) and Cooper Lake twice as many. A table that
/// was measured knows better.
bool pairs_are_fast() {
  if (const auto& given = given_product_table()) return given->pairs_bf16;
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") || __builtin_cpu_is("cooperlake");
#else
  return false;
#endif
}

InstructionSet detect() {
  const InstructionSet have = supported_instruction_set();
  const char* name = std::getenv("MESHRT_ISA_LEVEL");
  if (!name || !*name) return pairs_are_fast() ? have : std::min(have, InstructionSet::avx512);
  const std::string wanted = name;
  const char* const names[] = {"portable", "avx2", "avx512", "avx512_bf16"};
  for (const InstructionSet level :
       {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512, InstructionSet::avx512_bf16}) {
    if (wanted != names[static_cast<int>(level)]) continue;
    if (level <= have) return level;
    throw Failure(Cause::environment, "MESHRT_ISA_LEVEL asks for " + wanted + "; this machine has " +
                                          names[static_cast<int>(have)] + " at most");
  }
  throw Failure(Cause::environment,
                "MESHRT_ISA_LEVEL is `" + wanted + "`; it may be `portable`, `avx2`, `avx512` or `avx512_bf16`");
}

}  // namespace

InstructionSet supported_instruction_set() {
  static const InstructionSet level = supported();
  return level;
}

InstructionSet instruction_set() {
  static const InstructionSet level = detect();
  return level;
}

bool processor_has_amx() {
#if defined(__x86_64__)
  constexpr unsigned amx_bf16 = 1U << 22;  // of edx
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & amx_bf16) != 0;
#else
  return false;
#endif
}

std::string text_of(Narrow narrow, const std::string& by_pairs) {
  std::string text;
  if (narrow.bf16) text += ", bf16 " + (instruction_set() >= InstructionSet::avx512_bf16 ? by_pairs : "widened");
  if (narrow.f16) text += ", f16 widened";
  return text;
}

}  // namespace meshrt
