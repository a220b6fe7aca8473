#include "meshrt/instructions.h"

#include <sstream>
#include <utility>
#include <vector>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace meshrt {

namespace {

/// The sets that compiled_for knows, and whether this CPU has them. The compiler asks an x86 CPU by constant names
/// alone.
std::vector<std::pair<std::string_view, bool>> sets_of_cpu() {
#if defined(__x86_64__) || defined(__i386__)
#define MESHRT_SET(name) {name, __builtin_cpu_supports(name) != 0}
  __builtin_cpu_init();
  return {
      MESHRT_SET("sse3"),        MESHRT_SET("ssse3"),      MESHRT_SET("sse4.1"),     MESHRT_SET("sse4.2"),
      MESHRT_SET("popcnt"),      MESHRT_SET("sse4a"),      MESHRT_SET("avx"),        MESHRT_SET("fma4"),
      MESHRT_SET("xop"),         MESHRT_SET("fma"),        MESHRT_SET("bmi"),        MESHRT_SET("bmi2"),
      MESHRT_SET("avx2"),        MESHRT_SET("avx512f"),    MESHRT_SET("avx512cd"),   MESHRT_SET("avx512dq"),
      MESHRT_SET("avx512bw"),    MESHRT_SET("avx512vl"),   MESHRT_SET("avx512ifma"), MESHRT_SET("avx512vbmi"),
      MESHRT_SET("avx512vbmi2"), MESHRT_SET("avx512vnni"), MESHRT_SET("avx512bf16"), MESHRT_SET("avx512vp2intersect")};
#undef MESHRT_SET
#elif defined(__aarch64__)
  const unsigned long has = getauxval(AT_HWCAP), has_too = getauxval(AT_HWCAP2);
  return {{"simd", (has & HWCAP_ASIMD) != 0},     {"crc", (has & HWCAP_CRC32) != 0},
          {"aes", (has & HWCAP_AES) != 0},        {"sha2", (has & HWCAP_SHA2) != 0},
          {"lse", (has & HWCAP_ATOMICS) != 0},    {"rdma", (has & HWCAP_ASIMDRDM) != 0},
          {"fp16", (has & HWCAP_ASIMDHP) != 0},   {"dotprod", (has & HWCAP_ASIMDDP) != 0},
          {"sve", (has & HWCAP_SVE) != 0},        {"sve2", (has_too & HWCAP2_SVE2) != 0},
          {"bf16", (has_too & HWCAP2_BF16) != 0}, {"i8mm", (has_too & HWCAP2_I8MM) != 0}};
#else
  return {};
#endif
}

}  // namespace

std::string missing_instructions(std::string_view sets) {
  const auto known = sets_of_cpu();
  std::istringstream words{std::string(sets)};
  std::string missing;
  for (std::string word; words >> word;)
    for (const auto& [name, there] : known)
      if (name == word && !there) missing += (missing.empty() ? "" : ", ") + word;
  return missing;
}

std::string cpu_instructions() {
  std::string sets;
  for (const auto& [name, there] : sets_of_cpu())
    if (there) sets += std::string(" ").append(name);
  return sets;
}

}  // namespace meshrt
