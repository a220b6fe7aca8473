#include "onednn.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <new>

#include "instruction_set.h"
#include "meshrt/failure.h"
#include "system/dynamic_library.h"

namespace meshrt {
namespace {

struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};
constexpr unsigned alone = 1, by_openmp = 2;  // of cpu_runtime

constexpr int avx = 0x3, avx2 = 0x7, avx512_amx = 0x3e7, out_of_memory = 1;

std::string name_of_set(int set) {
  switch (set) {
    case 0x1: return "sse41";
    case avx: return "avx";
    case avx2: return "avx2";
    case 0x407: return "avx2_vnni";
    case 0x27: return "avx512";
    case 0x67: return "avx512_vnni";
    case 0xe7: return "avx512_bf16";
    case avx512_amx: return "avx512_amx";
    default: return fmt::format("{:#x}", set);
  }
}

// MESHRT_ISA_LEVEL lowers what it uses too. Refused where the user has asked for less already (ONEDNN_MAX_CPU_ISA).
void limit_instruction_set([[maybe_unused]] void* library) {
#if defined(__x86_64__)
  int (*set_max_cpu_isa)(int) = nullptr;
  find_function(library, "oneDNN", "dnnl_set_max_cpu_isa", set_max_cpu_isa);
  if (instruction_set() == InstructionSet::portable) set_max_cpu_isa(avx);
  if (instruction_set() == InstructionSet::avx2) set_max_cpu_isa(avx2);
#endif
}

}  // namespace

OneDnn open_onednn() {
  const char* given = std::getenv("MESHRT_ONEDNN");
  void* library = dlopen(given && *given ? given : "libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Failure(Cause::environment, std::string("oneDNN cannot be opened: ") + dlerror());
  const Version* (*version)() = nullptr;
  find_function(library, "oneDNN", "dnnl_version", version);
  const Version& found = *version();
  if (found.major != 2)
    throw Failure(Cause::environment,
                  fmt::format("oneDNN {}.{} has another interface than its version 2", found.major, found.minor));
  OneDnn dnn{};
  if (found.cpu_runtime == by_openmp) find_function(library, "oneDNN", "omp_set_num_threads", dnn.set_threads);
  else if (found.cpu_runtime != alone)
    throw Failure(Cause::environment, "oneDNN is built with other threads than those of OpenMP");
  limit_instruction_set(library);
  const auto find = [&](const char* name, auto& function) { find_function(library, "oneDNN", name, function); };
  find("dnnl_memory_desc_init_by_strides", dnn.memory_desc_init_by_strides);
  find("dnnl_memory_desc_init_by_tag", dnn.memory_desc_init_by_tag);
  find("dnnl_memory_desc_get_size", dnn.memory_desc_get_size);
  find("dnnl_memory_desc_equal", dnn.memory_desc_equal);
  find("dnnl_dilated_convolution_forward_desc_init", dnn.dilated_convolution_forward_desc_init);
  find("dnnl_dilated_convolution_backward_data_desc_init", dnn.dilated_convolution_backward_data_desc_init);
  find("dnnl_dilated_convolution_backward_weights_desc_init", dnn.dilated_convolution_backward_weights_desc_init);
  find("dnnl_matmul_desc_init", dnn.matmul_desc_init);
  find("dnnl_primitive_attr_create", dnn.primitive_attr_create);
  find("dnnl_primitive_attr_destroy", dnn.primitive_attr_destroy);
  find("dnnl_primitive_attr_set_post_ops", dnn.primitive_attr_set_post_ops);
  find("dnnl_post_ops_create", dnn.post_ops_create);
  find("dnnl_post_ops_append_sum", dnn.post_ops_append_sum);
  find("dnnl_post_ops_destroy", dnn.post_ops_destroy);
  find("dnnl_primitive_attr_set_scratchpad_mode", dnn.primitive_attr_set_scratchpad_mode);
  find("dnnl_primitive_desc_create", dnn.primitive_desc_create);
  find("dnnl_primitive_desc_query", dnn.primitive_desc_query);
  find("dnnl_primitive_desc_query_md", dnn.primitive_desc_query_md);
  find("dnnl_primitive_desc_destroy", dnn.primitive_desc_destroy);
  find("dnnl_reorder_primitive_desc_create", dnn.reorder_primitive_desc_create);
  find("dnnl_primitive_create", dnn.primitive_create);
  find("dnnl_primitive_execute", dnn.primitive_execute);
  find("dnnl_memory_create", dnn.memory_create);
  find("dnnl_memory_destroy", dnn.memory_destroy);
  find("dnnl_stream_create", dnn.stream_create);
  find("dnnl_stream_destroy", dnn.stream_destroy);
  OneDnn::Status (*engine_create)(dnnl::Engine*, int kind, size_t index) = nullptr;
  find("dnnl_engine_create", engine_create);
  require_success(engine_create(&dnn.engine, dnnl::cpu, 0), "engine_create");
  dnn.attributes = dnn.make_attributes();
  int (*get_effective_cpu_isa)() = nullptr;
  find("dnnl_get_effective_cpu_isa", get_effective_cpu_isa);
  const int set = get_effective_cpu_isa();
  dnn.has_amx = set == avx512_amx;
  dnn.name = fmt::format("oneDNN {}.{}.{} {}", found.major, found.minor, found.patch, name_of_set(set));
  return dnn;
}

dnnl::Attributes OneDnn::make_attributes() const {
  dnnl::Attributes made = nullptr;
  require_success(primitive_attr_create(&made), "primitive_attr_create");
  require_success(primitive_attr_set_scratchpad_mode(made, dnnl::scratchpad_of_caller),
                  "primitive_attr_set_scratchpad_mode");
  return made;
}

dnnl::Stream OneDnn::stream() const {
  struct Mine {
    explicit Mine(const OneDnn& dnn) : destroy(dnn.stream_destroy) {
      if (dnn.set_threads) dnn.set_threads(1);
      require_success(dnn.stream_create(&stream, dnn.engine, dnnl::in_order), "stream_create");
    }
    ~Mine() { destroy(stream); }
    Mine(const Mine&) = delete;
    Mine& operator=(const Mine&) = delete;
    Status (*destroy)(dnnl::Stream);
    dnnl::Stream stream = nullptr;
  };
  static thread_local const Mine mine(*this);
  return mine.stream;
}

DnnlMemory::DnnlMemory(const OneDnn& dnn, const dnnl::MemoryDesc& desc, const void* at) : dnn_(dnn) {
  require_success(dnn.memory_create(&memory_, &desc, dnn.engine, const_cast<void*>(at)), "memory_create");
}

const OneDnn& onednn() {
  static const OneDnn& opened = *new OneDnn(open_onednn());  // threads that compute may outlive statics
  return opened;
}

void require_success(OneDnn::Status status, const char* call) {
  if (status == out_of_memory) throw std::bad_alloc();
  if (status != dnnl::success)
    throw Failure(Cause::environment, fmt::format("oneDNN fails in {} with status {}", call, status));
}

}  // namespace meshrt
