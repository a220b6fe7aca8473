#include "meshrt/instructions.h"

#include <sstream>
#include <utility>
#include <vector>

namespace meshrt {

namespace {

/// The sets that compiled_for knows, and whether this CPU has them. The compiler asks the CPU by constant names alone.
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
