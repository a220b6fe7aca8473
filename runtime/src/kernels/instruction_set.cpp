#include "instruction_set.h"

#include <cstdlib>
#include <string>

#include "meshrt/failure.h"

namespace meshrt {
namespace {

InstructionSet best() {
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

InstructionSet detect() {
  const InstructionSet have = best();
  const char* name = std::getenv("MESHRT_ISA_LEVEL");
  if (!name || !*name) return have;
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

InstructionSet instruction_set() {
  static const InstructionSet level = detect();
  return level;
}

std::string text_of(Narrow narrow, const std::string& by_pairs) {
  std::string text;
  if (narrow.bf16) text += ", bf16 " + (instruction_set() >= InstructionSet::avx512_bf16 ? by_pairs : "widened");
  if (narrow.f16) text += ", f16 widened";
  return text;
}

}  // namespace meshrt
