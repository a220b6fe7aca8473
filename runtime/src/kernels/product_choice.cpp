// The table, as measured by `build/tests/kernels/gemm_bench 9` (our time over OpenBLAS's, medians of turns; above 1
// ours is faster) on a Zen 4 with OpenBLAS 0.3.21 and its Haswell kernels, the ones that it gets there:
//
//                           avx512                  avx2
//                           f32         f64         f32         f64
//   1 x 1536 x 384          3.76        2.52        3.44        1.65
//   512 x 1 x 384           1.24        2.00        0.98        1.38
//   30 x 4 x 1000           1.31        1.40        1.31        1.02
//   32 x 32 x 32            1.10        1.15        1.02        1.09
//   64 x 64 x 16            0.99        1.09        0.96        0.97
//   128 x 128 x 128         1.04        1.09        1.03        1.05
//   512 x 1152 x 384        1.02        1.01        1.01        0.96
//   512 x 384 x 1536        1.04        1.01        1.02        0.92
//   384 x 1536 x 512, TN    0.99        0.98        0.95        0.97
//   4096 x 384 x 512, TN    1.02        0.93        0.89        0.82
//
// (with tiles of 8 rows by 2 registers; they are 6 by 4 since). On a Sapphire Rapids beside other load, with OpenBLAS's
// SkylakeX kernels, AVX-512:
//
//   512 x 1152 x 384        1.09        1.00
//   512 x 384 x 1536        1.18        1.15
//   384 x 1536 x 512, TN    1.03        1.05
//   4096 x 384 x 512, TN    1.05        1.26
//   1 x 1536 x 384          0.95        0.98
//   512 x 1 x 384           0.46        0.69
//   30 x 4 x 1000           0.22        0.50
//
// On a Zen 3, which has AVX2 alone, with OpenBLAS's Zen kernels, both cores at work:
//
//                           f32         f64
//   512 x 1152 x 384        1.00        1.00
//   512 x 384 x 1536        1.00        0.84
//   384 x 1536 x 512, TN    1.01        0.94
//   4096 x 384 x 512, TN    1.04        0.94
//   1024 x 1024 x 1024      0.95        0.73
//   1 x 1536 x 384          2.64        1.01
//   512 x 1 x 384           1.99
//   30 x 4 x 1000           1.49
//
// A training step there, of f32 with all products ours, beside one whose matrices are OpenBLAS's: 0.96 of its time for
// tests/bench/train's T1, 0.99 for T2, 1.02 for T4. As close as they are, ours give the bits of every processor that
// has vectors.
//
// NEON was never measured: there all are ours, whose bits are those of every other processor.
//
// Of few columns ours add up in order all the same, where others add up 16 sums at a time: bits come before speed. A
// table for a machine is measured by `meshc doctor --tune` (product_table.h).
//
// Products of f32 and f64 with an epilogue are ours: there the other one reads and writes the result once more. Without
// vector instructions a fused multiply-add is a call of a function, a hundred times slower than OpenBLAS's
// multiplication and addition.
#include "product_choice.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "meshrt/failure.h"

namespace meshrt {
namespace {

enum class Element : uint8_t { f32, f64 };

Implementation look_up(Element type, InstructionSet level, ProductClass shape) {
  constexpr auto ours = Implementation::own, blas = Implementation::openblas;
  using Row = std::array<Implementation, 4>;  // with_epilogue, thin, small, matrix
  constexpr Row all_ours = {ours, ours, ours, ours}, all_theirs = {blas, blas, blas, blas};
  constexpr std::array<std::array<Row, 4>, 2> table = {{
      // portable    neon      avx2                      avx512
      {{all_theirs, all_ours, all_ours, all_ours}},                  // f32
      {{all_theirs, all_ours, {ours, ours, ours, blas}, all_ours}},  // f64
  }};
  const InstructionSet row = std::min(level, InstructionSet::avx512);
  return table[static_cast<size_t>(type)][static_cast<size_t>(row)][static_cast<size_t>(shape)];
}

}  // namespace

template <>
Implementation fastest<float>(InstructionSet level, ProductClass shape) {
  return look_up(Element::f32, level, shape);
}
template <>
Implementation fastest<double>(InstructionSet level, ProductClass shape) {
  return look_up(Element::f64, level, shape);
}

const char* name_of(Implementation by) {
  constexpr std::array names = {"own", "openblas", "onednn"};
  return names[static_cast<size_t>(by)];
}

std::optional<Implementation> wanted_implementation() {
  const char* name = std::getenv("MESHRT_GEMM");
  const std::string wanted = name ? name : "";
  for (const Implementation by : all_implementations)
    if (wanted == name_of(by)) return by;
  if (!wanted.empty() && wanted.find('/') == std::string::npos)
    throw Failure(Cause::usage, "MESHRT_GEMM is `" + wanted +
                                    "`; it may be `own`, `openblas`, `onednn`, or a file that `meshc doctor "
                                    "--tune` has written, with its folder: `./" +
                                    wanted + "`");
  return std::nullopt;
}

}  // namespace meshrt
