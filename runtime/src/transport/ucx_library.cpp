#include "transport/ucx_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "meshrt/failure.h"

namespace meshrt {

namespace {

void* open(const char* name) {
  // Global, so that UCX's own plug-ins find it.
  if (void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return library;
  throw Failure(Cause::environment,
                fmt::format("cannot use UCX: {}; install it (libucx0) or choose --transport arena", dlerror()));
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) throw Failure(Cause::environment, fmt::format("this version of UCX has no {}", name));
}

}  // namespace

UcxLibrary open_ucx() {
  setenv("UCX_HANDLE_ERRORS", "none", 0);  // our own report of a crash, not a backtrace of UCX
  setenv("UCX_MEMTYPE_CACHE", "n", 0);     // there is only host memory
  setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
  // All ranks are on this host. Left to itself, UCX would also connect them by TCP; by reading each other's memory
  // (cma), which containers forbid and UCX answers with an abort at the first large message; or by files in /dev/shm
  // (posix), which stay behind when a rank is killed while it starts.
  setenv("UCX_TLS", "self,sysv", 0);
  void* ucs = open("libucs.so.0");
  void* ucp = open("libucp.so.0");
  UcxLibrary ucx{};
  find(ucp, "ucp_config_read", ucx.config_read);
  find(ucp, "ucp_config_release", ucx.config_release);
  find(ucp, "ucp_init_version", ucx.init_version);
  find(ucp, "ucp_cleanup", ucx.cleanup);
  find(ucp, "ucp_get_version_string", ucx.get_version_string);
  find(ucp, "ucp_worker_create", ucx.worker_create);
  find(ucp, "ucp_worker_destroy", ucx.worker_destroy);
  find(ucp, "ucp_worker_progress", ucx.worker_progress);
  find(ucp, "ucp_worker_get_address", ucx.worker_get_address);
  find(ucp, "ucp_worker_release_address", ucx.worker_release_address);
  find(ucp, "ucp_ep_create", ucx.ep_create);
  find(ucp, "ucp_ep_close_nbx", ucx.ep_close_nbx);
  find(ucp, "ucp_tag_send_nbx", ucx.tag_send_nbx);
  find(ucp, "ucp_tag_recv_nbx", ucx.tag_recv_nbx);
  find(ucp, "ucp_request_check_status", ucx.request_check_status);
  find(ucp, "ucp_request_free", ucx.request_free);
  find(ucs, "ucs_status_string", ucx.status_string);
  return ucx;
}

}  // namespace meshrt
