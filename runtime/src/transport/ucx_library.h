// ucx_library.h: UCX, opened when a job asks for it. It is not linked: loading it installs signal handlers and costs
// time in every program, and most jobs live on one host and never use it.
#pragma once
#include <ucp/api/ucp.h>

#include <string>

#include "control/placement.h"

namespace meshrt {

/// The functions of UCX that the transport calls. Open as long as the process lives.
struct UcxLibrary {
  decltype(&ucp_config_read) config_read;
  decltype(&ucp_config_release) config_release;
  decltype(&ucp_init_version) init_version;
  decltype(&ucp_cleanup) cleanup;
  decltype(&ucp_get_version_string) get_version_string;
  decltype(&ucp_worker_create) worker_create;
  decltype(&ucp_worker_destroy) worker_destroy;
  decltype(&ucp_worker_progress) worker_progress;
  decltype(&ucp_worker_get_address) worker_get_address;
  decltype(&ucp_worker_release_address) worker_release_address;
  decltype(&ucp_ep_create) ep_create;
  decltype(&ucp_ep_close_nbx) ep_close_nbx;
  decltype(&ucp_tag_send_nbx) tag_send_nbx;
  decltype(&ucp_tag_recv_nbx) tag_recv_nbx;
  decltype(&ucp_request_check_status) request_check_status;
  decltype(&ucp_request_free) request_free;
  decltype(&ucs_status_string) status_string;
};

/// The address by which long messages may go past UCX over TCP (tcp.h); empty where UCX carries all: on one host, with
/// RDMA, where the user has chosen UCX's ways or interface, and with MESHRT_NO=tcp.
std::string address_for_tcp(const Placement& placement);

/// Opens libucp. Sets what suits a job that runs there in UCX's environment where the user has set nothing. Throws
/// Failure (Cause::environment) when UCX is not installed.
UcxLibrary open_ucx(const Placement& placement);

}  // namespace meshrt
