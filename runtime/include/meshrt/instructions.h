// instructions.h: the sets of instructions that a program is compiled for. On a CPU without one of them it would end by
// SIGILL, without a word: they are looked at before anything else.
#pragma once
#include <string>
#include <string_view>

namespace meshrt {

/// " avx avx2 fma": what the options of the compiler allow in the file that includes this, each of which has a constant
/// of its own. Names are those of gcc's options.
constexpr const char* compiled_for =
    ""
#ifdef __SSE3__
    " sse3"
#endif
#ifdef __SSSE3__
    " ssse3"
#endif
#ifdef __SSE4_1__
    " sse4.1"
#endif
#ifdef __SSE4_2__
    " sse4.2"
#endif
#ifdef __POPCNT__
    " popcnt"
#endif
#ifdef __SSE4A__
    " sse4a"
#endif
#ifdef __AVX__
    " avx"
#endif
#ifdef __FMA4__
    " fma4"
#endif
#ifdef __XOP__
    " xop"
#endif
#ifdef __FMA__
    " fma"
#endif
#ifdef __BMI__
    " bmi"
#endif
#ifdef __BMI2__
    " bmi2"
#endif
#ifdef __AVX2__
    " avx2"
#endif
#ifdef __AVX512F__
    " avx512f"
#endif
#ifdef __AVX512CD__
    " avx512cd"
#endif
#ifdef __AVX512DQ__
    " avx512dq"
#endif
#ifdef __AVX512BW__
    " avx512bw"
#endif
#ifdef __AVX512VL__
    " avx512vl"
#endif
#ifdef __AVX512IFMA__
    " avx512ifma"
#endif
#ifdef __AVX512VBMI__
    " avx512vbmi"
#endif
#ifdef __AVX512VBMI2__
    " avx512vbmi2"
#endif
#ifdef __AVX512VNNI__
    " avx512vnni"
#endif
#ifdef __AVX512BF16__
    " avx512bf16"
#endif
#ifdef __AVX512VP2INTERSECT__
    " avx512vp2intersect"
#endif
// Of aarch64, where every processor has `simd`.
#ifdef __aarch64__
    " simd"
#endif
#ifdef __ARM_FEATURE_CRC32
    " crc"
#endif
#ifdef __ARM_FEATURE_AES
    " aes"
#endif
#ifdef __ARM_FEATURE_SHA2
    " sha2"
#endif
#ifdef __ARM_FEATURE_ATOMICS
    " lse"
#endif
#ifdef __ARM_FEATURE_QRDMX
    " rdma"
#endif
#ifdef __ARM_FEATURE_FP16_VECTOR_ARITHMETIC
    " fp16"
#endif
#ifdef __ARM_FEATURE_DOTPROD
    " dotprod"
#endif
#ifdef __ARM_FEATURE_SVE
    " sve"
#endif
#ifdef __ARM_FEATURE_SVE2
    " sve2"
#endif
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    " bf16"
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
    " i8mm"
#endif
    ;

/// Those of `sets` that this CPU does not have: "fma4, xop"; empty: it has them all.
std::string missing_instructions(std::string_view sets);

/// Those that this CPU has: what is compiled for it runs where they are the same.
std::string cpu_instructions();

}  // namespace meshrt
