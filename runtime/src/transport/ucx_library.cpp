#include "transport/ucx_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "meshrt/failure.h"
#include "system/dynamic_library.h"
#include "system/switched_off.h"

namespace meshrt {

namespace {

void* open(const char* name) {
  // Global, so that UCX's own plug-ins find it.
  if (void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return library;
  throw Failure(Cause::environment,
                fmt::format("cannot use UCX: {}; install it (libucx0) or choose --transport arena", dlerror()));
}

bool has_rdma() {
  std::error_code none;
  return !std::filesystem::is_empty("/sys/class/infiniband", none) && !none;
}

// Which ways UCX may take. Not by reading each other's memory (cma), which containers forbid and UCX answers with an
// abort at the first large message; nor by files in /dev/shm (posix), which stay behind when a rank is killed while it
// starts. On one host not by TCP either.
constexpr const char *ways_between_hosts = "^cma,posix", *ways_on_a_host = "self,sysv";

bool chosen_by_user(const char* variable, const std::string& ours) {
  const char* const value = std::getenv(variable);
  return value && value != ours;
}

}  // namespace

std::string address_for_tcp(const Placement& placement) {
  if (placement.one_host() || has_rdma() || switched_off("tcp") || chosen_by_user("UCX_TLS", ways_between_hosts) ||
      chosen_by_user("UCX_NET_DEVICES", placement.interface))
    return "";
  return placement.address;
}

UcxLibrary open_ucx(const Placement& placement) {
  setenv("UCX_HANDLE_ERRORS", "none", 0);  // our own report of a crash, not a backtrace of UCX
  setenv("UCX_DEBUG_SIGNO", "0", 0);       // SIGHUP ends a run; UCX would stop in it and wait for a debugger
  setenv("UCX_MEMTYPE_CACHE", "n", 0);     // there is only host memory
  setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
  // On one host nothing registers memory, so UCX need not hear of every mmap: when it tries whether it would, it makes
  // segments of System V, which stay behind where a rank is killed between two lines of its own.
  if (placement.one_host() && !chosen_by_user("UCX_TLS", ways_on_a_host)) setenv("UCX_MEM_EVENTS", "n", 0);
  setenv("UCX_TLS", placement.one_host() ? ways_on_a_host : ways_between_hosts, 0);
  // With RDMA it has more to choose from than we know.
  if (!placement.one_host() && !has_rdma()) {
    // Left to itself, UCX may try bridges of containers first.
    if (!placement.interface.empty()) setenv("UCX_NET_DEVICES", placement.interface.c_str(), 0);
    // It cuts messages into pieces of 8 KiB, a system call each, and asks before it sends long ones. Receives are
    // posted before: asking is only a round trip more.
    setenv("UCX_TCP_TX_SEG_SIZE", "256k", 0);
    setenv("UCX_TCP_RX_SEG_SIZE", "256k", 0);
    setenv("UCX_RNDV_THRESH", "1m", 0);
  }
  // Above this number UCX holds TCP for a bad choice.
  setenv("UCX_TCP_MAX_NUM_EPS", fmt::format("{}", std::max(256, placement.ranks())).c_str(), 0);
  void* ucs = open("libucs.so.0");
  void* ucp = open("libucp.so.0");
  UcxLibrary ucx{};
  find_function(ucp, "UCX", "ucp_config_read", ucx.config_read);
  find_function(ucp, "UCX", "ucp_config_release", ucx.config_release);
  find_function(ucp, "UCX", "ucp_init_version", ucx.init_version);
  find_function(ucp, "UCX", "ucp_cleanup", ucx.cleanup);
  find_function(ucp, "UCX", "ucp_get_version_string", ucx.get_version_string);
  find_function(ucp, "UCX", "ucp_worker_create", ucx.worker_create);
  find_function(ucp, "UCX", "ucp_worker_destroy", ucx.worker_destroy);
  find_function(ucp, "UCX", "ucp_worker_progress", ucx.worker_progress);
  find_function(ucp, "UCX", "ucp_worker_get_address", ucx.worker_get_address);
  find_function(ucp, "UCX", "ucp_worker_release_address", ucx.worker_release_address);
  find_function(ucp, "UCX", "ucp_ep_create", ucx.ep_create);
  find_function(ucp, "UCX", "ucp_ep_close_nbx", ucx.ep_close_nbx);
  find_function(ucp, "UCX", "ucp_tag_send_nbx", ucx.tag_send_nbx);
  find_function(ucp, "UCX", "ucp_tag_recv_nbx", ucx.tag_recv_nbx);
  find_function(ucp, "UCX", "ucp_request_check_status", ucx.request_check_status);
  find_function(ucp, "UCX", "ucp_request_free", ucx.request_free);
  find_function(ucs, "UCX", "ucs_status_string", ucx.status_string);
  return ucx;
}

}  // namespace meshrt
