// conv_choice.h: which implementation runs a convolution: our own kernels (conv_own.h) or oneDNN (conv_onednn.h).
#pragma once
#include <optional>

#include "conv_call.h"
#include "instruction_set.h"

namespace meshrt {

enum class ConvImplementation : uint8_t { own, onednn };

/// Kinds of convolutions whose best implementation may differ.
enum class ConvClass : uint8_t {
  by_channels,  ///< each channel is a group of its own
  narrow,       ///< fewer than 8 channels, of a group, on a side
  wide,
};

inline ConvClass class_of(const ConvExtents& extents) {
  constexpr int64_t few = 8;
  if (extents.groups > 1 && extents.in == 1 && extents.out == 1) return ConvClass::by_channels;
  return extents.in < few || extents.out < few ? ConvClass::narrow : ConvClass::wide;
}

/// The table: what is fastest where oneDNN is there, in f32.
ConvImplementation fastest(InstructionSet level, ConvClass shape);

/// What MESHRT_CONV asks for; nothing: the table. Throws Failure for another word than `own` and `onednn`.
std::optional<ConvImplementation> wanted_conv_implementation();

}  // namespace meshrt
