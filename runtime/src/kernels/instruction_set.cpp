#include "instruction_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

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
  return InstructionSet::portable;
#elif defined(__aarch64__)
  return InstructionSet::neon;  // every processor of it has these
#else
  return InstructionSet::portable;
#endif
}

std::vector<InstructionSet> all_levels() {
  std::vector<InstructionSet> levels(kernel_levels.begin(), kernel_levels.end());
#if defined(__x86_64__)
  levels.push_back(InstructionSet::avx512_bf16);
#endif
  return levels;
}

/// "`portable`, `avx2` or `avx512`"
std::string text_of(const std::vector<InstructionSet>& levels) {
  std::string text;
  for (const InstructionSet level : levels)
    text += std::string(text.empty() ? "" : level == levels.back() ? " or " : ", ") + "`" + name_of(level) + "`";
  return text;
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
  for (const InstructionSet level : all_levels()) {
    if (wanted != name_of(level)) continue;
    if (level <= have) return level;
    throw Failure(Cause::environment,
                  "MESHRT_ISA_LEVEL asks for " + wanted + "; this machine has " + name_of(have) + " at most");
  }
  throw Failure(Cause::usage, "MESHRT_ISA_LEVEL is `" + wanted + "`; it may be " + text_of(all_levels()));
}

}  // namespace

const char* name_of(InstructionSet level) {
  constexpr std::array names = {"portable", "neon", "avx2", "avx512", "avx512_bf16"};
  return names[static_cast<size_t>(level)];
}

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

std::string own_name() { return std::string("own ") + name_of(std::min(instruction_set(), kernel_levels.back())); }

std::string text_of(Narrow narrow, const std::string& by_pairs) {
  std::string text;
  if (narrow.bf16) text += ", bf16 " + (instruction_set() >= InstructionSet::avx512_bf16 ? by_pairs : "widened");
  if (narrow.f16) text += ", f16 widened";
  return text;
}

}  // namespace meshrt
