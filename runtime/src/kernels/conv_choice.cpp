// The table, as measured by `build/tests/kernels/conv_bench 9` (our time over oneDNN's, medians of turns; above 1 ours
// is faster) on an EPYC with AVX2 and oneDNN 2.6.3, pictures of some samples each:
//
//                                          y           x           w
//   1-d, 256 groups of 1, kernel 4         (no kernel) 7.28        6.72
//   56 x 56, 64 groups of 1                0.50        0.52        1.05
//   28 x 28, 128 to 256, kernel 1 / 2      2.10        1.82        2.10
//   28 x 28, 1 to 32                       0.22        0.76        0.26
//   28 x 28, 8 to 8                        0.33        0.20        0.27
//   28 x 28, 16 to 16                      0.68        0.52        0.78
//   28 x 28, 24 to 24                      0.68        0.53        0.73
//   28 x 28, 64 to 8                       0.77        0.61        0.54
//   28 x 28, 8 groups of 8                 0.39        0.23        0.33
//   14 x 14, 32 to 64, stride 2            1.39        0.94        1.14
//   14 x 14, 32 to 32                      1.12        0.73        1.07
//   56 x 56, 64 to 64                      0.99        1.02        1.77
//   28 x 28, 128 to 128                    0.99        0.89        1.29
//   56 x 56, 64 to 256, kernel 1           0.59        0.90        1.11
//   7 x 7, 512 to 512                      1.30        0.98        1.34
//   1-d, 80 to 384                         0.99        1.05        2.31
//
// (kernels of 3, and along two dims, where nothing else is said). With few channels our register tile is mostly empty;
// of weights the patches are a long inner extent, at which our products are at their best. The same table serves
// AVX-512. Without vector instructions of ours all is oneDNN's. NEON was never measured: there all is ours.
#include "conv_choice.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "meshrt/failure.h"

namespace meshrt {

ConvClass class_of(const WindowDims& windows, const ConvExtents& extents) {
  constexpr int64_t few = 32;
  const auto moves = [](const WindowDim& window) { return window.wide.count > 1 || window.kernel > 1; };
  const bool strided = std::ranges::any_of(windows, [](const WindowDim& window) { return window.stride > 1; });
  if (extents.groups > 1 && extents.in == 1 && extents.out == 1)
    return std::ranges::count_if(windows, moves) > 1 ? ConvClass::by_channels : ConvClass::lines_by_channels;
  if (strided && std::ranges::all_of(windows, [](const WindowDim& window) { return window.kernel == 1; }))
    return ConvClass::sparse_points;
  if (std::min(extents.in, extents.out) < few) return ConvClass::narrow;
  return strided ? ConvClass::strided : ConvClass::dense;
}

ConvImplementation fastest(InstructionSet level, ConvClass shape, ConvResult makes) {
  if (level == InstructionSet::portable) return ConvImplementation::onednn;
  if (level == InstructionSet::neon) return ConvImplementation::own;
  constexpr auto ours = ConvImplementation::own, theirs = ConvImplementation::onednn;
  using Row = std::array<ConvImplementation, 3>;  // y, x, w
  constexpr std::array<Row, 6> table = {{
      {ours, ours, ours},        // lines_by_channels
      {theirs, theirs, ours},    // by_channels
      {ours, ours, ours},        // sparse_points
      {theirs, theirs, theirs},  // narrow
      {ours, theirs, ours},      // strided
      {theirs, theirs, ours},    // dense
  }};
  return table[static_cast<size_t>(shape)][static_cast<size_t>(makes)];
}

std::optional<ConvImplementation> wanted_conv_implementation() {
  const char* name = std::getenv("MESHRT_CONV");
  const std::string wanted = name ? name : "";
  if (wanted == "own") return ConvImplementation::own;
  if (wanted == "onednn") return ConvImplementation::onednn;
  if (!wanted.empty()) throw Failure(Cause::usage, "MESHRT_CONV is `" + wanted + "`; it may be `own` or `onednn`");
  return std::nullopt;
}

}  // namespace meshrt
