// conv_choice.h: which implementation runs a convolution: our own kernels (conv_own.h) or oneDNN (conv_onednn.h).
#pragma once
#include <optional>

#include "conv_call.h"
#include "instruction_set.h"

namespace meshrt {

enum class ConvImplementation : uint8_t { own, onednn };

/// Kinds of convolutions whose best implementation may differ.
enum class ConvClass : uint8_t {
  lines_by_channels,  ///< windows along one dim, and each channel is a group of its own
  by_channels,        ///< along several
  sparse_points,      ///< windows of one element, which leave out others
  narrow,             ///< fewer than 32 channels of a group, on a side
  strided,            ///< windows that begin further apart than one element
  dense,
};

ConvClass class_of(const WindowDims& windows, const ConvExtents& extents);

/// The table: what is fastest where oneDNN is there, in f32.
ConvImplementation fastest(InstructionSet level, ConvClass shape, ConvResult makes);

/// What MESHRT_CONV asks for; nothing: the table. Throws Failure for another word than `own` and `onednn`.
std::optional<ConvImplementation> wanted_conv_implementation();

}  // namespace meshrt
