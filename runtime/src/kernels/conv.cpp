// conv.cpp: chooses who computes a convolution.
#include "meshrt/conv.h"

#include <string>
#include <type_traits>

#include "conv_choice.h"
#include "conv_onednn.h"
#include "conv_own.h"
#include "instruction_set.h"
#include "meshrt/failure.h"
#include "meshrt/profile.h"

namespace meshrt {
namespace {

struct Found {
  const OneDnn* library = nullptr;
  std::string why_not;  ///< when there is none
};

Found look_for_library() {
  if (wanted_conv_implementation() == ConvImplementation::own) return {nullptr, ""};
  try {
    return {&onednn(), ""};
  } catch (const Failure& failure) {
    if (wanted_conv_implementation() != ConvImplementation::onednn) return {nullptr, failure.what()};
    throw Failure(Cause::environment, std::string("MESHRT_CONV=onednn, but ") + failure.what() +
                                          "; install libdnnl2 or leave MESHRT_CONV out");
  }
}

const Found& library() {
  static const Found found = look_for_library();
  return found;
}

/// oneDNN, where it is to run this one; null: our own kernels.
template <class In>
const OneDnn* library_for(const ConvCall<float, In>& call) {
  static const std::optional<ConvImplementation> wanted = wanted_conv_implementation();
  if (!wanted && std::is_same_v<In, Bfloat16> && instruction_set() >= InstructionSet::avx512_bf16) return nullptr;
  const ConvClass shape = class_of(call.windows, call.extents);
  if (wanted.value_or(fastest(instruction_set(), shape, call.makes)) == ConvImplementation::own) return nullptr;
  return library().library;
}

template <class T, class In>
void run(const ConvCall<T, In>& call) {
  const Timed timed(&StepProfile::products,
                    [&] { return TraceLabel{call.makes == ConvResult::w ? "convolution, weights" : "convolution"}; });
  if constexpr (std::is_same_v<T, float>)
    if (const OneDnn* dnn = library_for(call); dnn && convolve_onednn(*dnn, call)) return;
  convolve_own(call);
}

}  // namespace

template <class T, class In>
void conv(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast, const ConvExtents& extents,
          const In* x, const In* w, T* y) {
  run(ConvCall<T, In>{ConvResult::y, {slow, middle, fast}, extents, x, w, y});
}

template <class T, class In>
void conv_transpose(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast, const ConvExtents& extents,
                    const In* y, const In* w, T* x) {
  run(ConvCall<T, In>{ConvResult::x, {slow, middle, fast}, extents, y, w, x});
}

template <class T, class In>
void conv_weights(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast, const ConvExtents& extents,
                  const In* x, const In* y, T* w) {
  run(ConvCall<T, In>{ConvResult::w, {slow, middle, fast}, extents, x, y, w});
}

template void conv(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const float*, const float*,
                   float*);
template void conv(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const double*,
                   const double*, double*);
template void conv_transpose(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const float*,
                             const float*, float*);
template void conv_transpose(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const double*,
                             const double*, double*);
template void conv_weights(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const float*,
                           const float*, float*);
template void conv_weights(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const double*,
                           const double*, double*);
template void conv(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const Bfloat16*,
                   const Bfloat16*, float*);
template void conv(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const Float16*,
                   const Float16*, float*);
template void conv_transpose(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const Bfloat16*,
                             const Bfloat16*, float*);
template void conv_transpose(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const Float16*,
                             const Float16*, float*);
template void conv_weights(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const Bfloat16*,
                           const Bfloat16*, float*);
template void conv_weights(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const Float16*,
                           const Float16*, float*);

namespace {

std::string name_of_wide() {
  const std::string own = own_name();
  if (!library().library) return own;
  const std::string& name = library().library->name;
  return wanted_conv_implementation() ? name : own + ", where it is faster " + name;
}

}  // namespace

std::string conv_name(Narrow narrow) { return name_of_wide() + text_of(narrow, "own by vdpbf16ps"); }

std::string why_no_onednn() { return library().why_not; }

}  // namespace meshrt
