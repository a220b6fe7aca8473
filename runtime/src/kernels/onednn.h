// onednn.h: oneDNN, opened at run time: convolutions, and products of bf16, by kernels that it makes for their sizes
// (conv_choice.h and product_choice.h choose). What is called of the C interface of its version 2 is declared here, so
// that no header is needed; it alone knows what is in its structures.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace meshrt {

/// Types and numbers of that interface.
namespace dnnl {
struct MemoryDesc {  // room for a dnnl_memory_desc_t, of 696 bytes
  alignas(8) std::byte bytes[1024];
};
struct OpDesc {  // room for a dnnl_convolution_desc_t, of 5976 bytes, or a dnnl_matmul_desc_t
  alignas(8) std::byte bytes[8192];
};
using Engine = struct dnnl_engine*;
using Stream = struct dnnl_stream*;
using Attributes = struct dnnl_primitive_attr*;
using PostOps = struct dnnl_post_ops*;
using PrimitiveDesc = struct dnnl_primitive_desc*;
using Primitive = struct dnnl_primitive*;
using Memory = struct dnnl_memory*;
struct Argument {
  int which;
  Memory memory;
};
using Dims = const int64_t*;
enum Number : int {
  success = 0,
  cpu = 1,
  any_format = 1,
  bf16 = 2,
  f32 = 3,
  forward = 64,
  direct = 1,
  scratchpad_of_caller = 1,
  in_order = 1,
};
enum Query : int { implementation = 8, weights_desc = 131, weights_gradient_desc = 132, scratchpad_desc = 136 };
enum Which : int { x = 1, y = 17, w = 33, scratchpad = 80, x_gradient = 129, y_gradient = 145, w_gradient = 161 };
}  // namespace dnnl

/// Its functions, under their names without `dnnl_`, and one engine: as long as the process lives.
struct OneDnn {
  using Status = int;
  using Windows = dnnl::Dims;  // a number along each dim of windows

  Status (*memory_desc_init_by_strides)(dnnl::MemoryDesc*, int ndims, dnnl::Dims, int type, dnnl::Dims strides);
  Status (*memory_desc_init_by_tag)(dnnl::MemoryDesc*, int ndims, dnnl::Dims, int type, int tag);
  size_t (*memory_desc_get_size)(const dnnl::MemoryDesc*);
  int (*memory_desc_equal)(const dnnl::MemoryDesc*, const dnnl::MemoryDesc*);
  Status (*dilated_convolution_forward_desc_init)(dnnl::OpDesc*, int kind, int algorithm, const dnnl::MemoryDesc* x,
                                                  const dnnl::MemoryDesc* w, const dnnl::MemoryDesc* bias,
                                                  const dnnl::MemoryDesc* y, Windows strides, Windows dilations,
                                                  Windows before, Windows after);
  Status (*dilated_convolution_backward_data_desc_init)(dnnl::OpDesc*, int algorithm, const dnnl::MemoryDesc* x,
                                                        const dnnl::MemoryDesc* w, const dnnl::MemoryDesc* y,
                                                        Windows strides, Windows dilations, Windows before,
                                                        Windows after);
  Status (*dilated_convolution_backward_weights_desc_init)(dnnl::OpDesc*, int algorithm, const dnnl::MemoryDesc* x,
                                                           const dnnl::MemoryDesc* w, const dnnl::MemoryDesc* bias,
                                                           const dnnl::MemoryDesc* y, Windows strides,
                                                           Windows dilations, Windows before, Windows after);
  Status (*matmul_desc_init)(dnnl::OpDesc*, const dnnl::MemoryDesc* x, const dnnl::MemoryDesc* w,
                             const dnnl::MemoryDesc* bias, const dnnl::MemoryDesc* y);
  Status (*primitive_attr_create)(dnnl::Attributes*);
  Status (*primitive_attr_destroy)(dnnl::Attributes);
  Status (*primitive_attr_set_scratchpad_mode)(dnnl::Attributes, int mode);
  Status (*primitive_attr_set_post_ops)(dnnl::Attributes, dnnl::PostOps);
  Status (*post_ops_create)(dnnl::PostOps*);
  Status (*post_ops_append_sum)(dnnl::PostOps, float scale);
  Status (*post_ops_destroy)(dnnl::PostOps);
  Status (*primitive_desc_create)(dnnl::PrimitiveDesc*, const dnnl::OpDesc*, dnnl::Attributes, dnnl::Engine,
                                  dnnl::PrimitiveDesc forward);
  Status (*primitive_desc_query)(dnnl::PrimitiveDesc, int what, int index, void* result);
  const dnnl::MemoryDesc* (*primitive_desc_query_md)(dnnl::PrimitiveDesc, int what, int index);
  Status (*primitive_desc_destroy)(dnnl::PrimitiveDesc);
  Status (*reorder_primitive_desc_create)(dnnl::PrimitiveDesc*, const dnnl::MemoryDesc* from, dnnl::Engine,
                                          const dnnl::MemoryDesc* to, dnnl::Engine, dnnl::Attributes);
  Status (*primitive_create)(dnnl::Primitive*, dnnl::PrimitiveDesc);
  Status (*primitive_execute)(dnnl::Primitive, dnnl::Stream, int count, const dnnl::Argument*);
  Status (*memory_create)(dnnl::Memory*, const dnnl::MemoryDesc*, dnnl::Engine, void* at);
  Status (*memory_destroy)(dnnl::Memory);
  Status (*stream_create)(dnnl::Stream*, dnnl::Engine, unsigned flags);
  Status (*stream_destroy)(dnnl::Stream);
  void (*set_threads)(int) = nullptr;  ///< of OpenMP, where oneDNN uses it: of the calling thread alone
  dnnl::Engine engine;
  dnnl::Attributes attributes;  ///< its callers have the scratch memory
  std::string name;             ///< "oneDNN 2.6.3 avx2": what it is, and the instruction set that it uses
  bool has_amx = false;         ///< it uses the processor's unit for products of bf16

  /// The calling thread's, which computes alone.
  dnnl::Stream stream() const;
  /// Attributes of a primitive whose callers have the scratch memory.
  dnnl::Attributes make_attributes() const;
};

/// Opens libdnnl.so.2, or what MESHRT_ONEDNN names. Throws Failure (Cause::environment) where it is not there, or is
/// none that can be used.
OneDnn open_onednn();

/// The process's, opened at the first call, which throws as open_onednn does.
const OneDnn& onednn();

/// Memory that oneDNN reads or writes, as it calls it.
class DnnlMemory {
 public:
  DnnlMemory(const OneDnn& dnn, const dnnl::MemoryDesc& desc, const void* at);
  ~DnnlMemory() { dnn_.memory_destroy(memory_); }
  DnnlMemory(const DnnlMemory&) = delete;
  DnnlMemory& operator=(const DnnlMemory&) = delete;
  dnnl::Argument as(dnnl::Which which) const { return {which, memory_}; }

 private:
  const OneDnn& dnn_;
  dnnl::Memory memory_ = nullptr;
};

/// Throws Failure (Cause::environment), or std::bad_alloc, where oneDNN says that a call went wrong.
void require_success(OneDnn::Status, const char* call);

}  // namespace meshrt
