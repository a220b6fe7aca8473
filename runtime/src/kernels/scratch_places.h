// scratch_places.h: who uses which place of a thread's Scratch.
#pragma once

namespace meshrt {

enum ScratchPlace {
  panel_scratch,
  left_scratch,
  sum_scratch,
  narrow_scratch,
  attention_scratch,
  sort_scratch,
  route_taken_scratch,
  route_order_scratch,
  conv_patch_scratch,
  conv_weights_scratch,
  conv_result_scratch,
  conv_library_scratch,
  onednn_product_scratch,
  rounded_scratch,
  ordered_sums_scratch
};

}  // namespace meshrt
