#include "transport/ucx_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "control/packing.h"
#include "meshrt/failure.h"

namespace meshrt {

UcxWorker::UcxWorker(std::shared_ptr<Control> control, const WaitPolicy& policy)
    : ucx_(open_ucx(control->welcome().placement)),
      control_(std::move(control)),
      policy_(policy),
      endpoints_(control_->welcome().ranks()),
      states_(endpoints_.size(), UCS_OK) {
  ucp_config_t* config = nullptr;
  check(ucx_.config_read(nullptr, nullptr, &config), "read its settings");
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME;
  parameters.features = UCP_FEATURE_TAG;
  parameters.estimated_num_eps = endpoints_.size();
  parameters.name = "meshrt";
  const ucs_status_t status = ucx_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &context_);
  ucx_.config_release(config);
  check(status, "start");

  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // with a thread for progress, in turns
  check(ucx_.worker_create(context_, &worker, &worker_), "make a worker");

  ucp_address_t* address = nullptr;
  size_t length = 0;
  check(ucx_.worker_get_address(worker_, &address, &length), "tell its address");
  tcp_ = Tcp(address_for_tcp(control_->welcome().placement), control_->welcome().rank);  // UCX has its port first
  // Versions of UCX do not understand each other reliably, so each rank's goes in front of its addresses.
  const std::string version = ucx_.get_version_string();
  Packer mine;
  mine.text(version);
  mine.text(tcp_.address());
  mine.text(std::string(reinterpret_cast<const char*>(address), length));
  ucx_.worker_release_address(worker_, address);
  std::vector<std::string> tcp_addresses;
  for (const std::string& bytes : control_->exchange(mine.bytes(), policy_.timeout, [] {})) {
    Unpacker theirs(bytes);
    if (const std::string other = theirs.text(); other != version)
      throw Failure(Cause::environment, fmt::format("rank {} runs UCX {}, rank {} runs UCX {}; install one version",
                                                    control_->welcome().rank, version, addresses_.size(), other));
    tcp_addresses.push_back(theirs.text());
    addresses_.push_back(theirs.text());
  }
  tcp_.meet(tcp_addresses, control_->welcome().placement.host_of_rank);
}

UcxWorker::~UcxWorker() {
  if (std::uncaught_exceptions() > 0) return;  // peers may be gone, and closing would wait for them
  try {
    Batch closing;
    const ucp_request_param_t flush{};
    for (ucp_ep_h endpoint : endpoints_)
      if (endpoint) add(closing, ucx_.ep_close_nbx(endpoint, &flush), "close a connection");
    const auto go_on = [&] { progress(closing); };
    while (!closing.finished()) go_on();
    control_->finished();
    // A worker may go only when nobody has anything to flush to it. Others may compute for as long as they like.
    control_->exchange({}, std::chrono::hours(24 * 365), go_on);
    ucx_.worker_destroy(worker_);
    ucx_.cleanup(context_);
  } catch (const Failure&) {
    // The launcher is gone, and with it the job.
  }
}

void UcxWorker::check(ucs_status_t status, const char* action, Cause cause) const {
  if (status == UCS_OK) return;
  throw Failure(cause, fmt::format("UCX cannot {}: {}", action, ucx_.status_string(status)));
}

void UcxWorker::add(Batch& batch, ucs_status_ptr_t request, const char* action) {
  if (UCS_PTR_IS_ERR(request)) {
    batch.refused_ = UCS_PTR_STATUS(request);
    batch.action_ = action;
  } else if (request) {
    batch.requests_.push_back(request);
  }
}

ucp_ep_h UcxWorker::endpoint(int rank) {
  if (!endpoints_[rank]) {
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    parameters.address = reinterpret_cast<const ucp_address_t*>(addresses_[rank].data());
    const Placement& placement = control_->welcome().placement;
    const bool here = placement.host_of_rank[rank] == placement.host_of_rank[control_->welcome().rank];
    parameters.err_mode = here ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
    if (!here) {
      parameters.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
      parameters.err_handler.cb = [](void* state, ucp_ep_h, ucs_status_t status) {
        *static_cast<ucs_status_t*>(state) = status;
      };
      parameters.err_handler.arg = &states_[rank];
    }
    check(ucx_.ep_create(worker_, &parameters, &endpoints_[rank]), fmt::format("connect to rank {}", rank).c_str(),
          Cause::peer_died);
  }
  return endpoints_[rank];
}

void UcxWorker::check_connected(int rank) const {
  const std::string why = states_[rank] == UCS_OK ? tcp_.why_lost(rank) : ucx_.status_string(states_[rank]);
  if (why.empty()) return;
  throw Failure(Cause::peer_died, fmt::format("the connection to rank {} on {} is lost: {}", rank,
                                              control_->welcome().placement.host_name(rank), why));
}

void UcxWorker::send(Batch& batch, int rank, uint64_t tag, const void* data, size_t bytes) {
  if (goes_over_tcp(rank, bytes)) {
    batch.over_tcp_.push_back(tcp_.send(rank, tag, data, static_cast<int64_t>(bytes)));
    return;
  }
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  parameters.memory_type = UCS_MEMORY_TYPE_HOST;
  add(batch, ucx_.tag_send_nbx(endpoint(rank), data, bytes, tag, &parameters), "send");
}

void UcxWorker::receive(Batch& batch, int rank, uint64_t tag, void* data, size_t bytes) {
  if (goes_over_tcp(rank, bytes)) {
    batch.over_tcp_.push_back(tcp_.receive(rank, tag, data, static_cast<int64_t>(bytes)));
    return;
  }
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  parameters.memory_type = UCS_MEMORY_TYPE_HOST;
  add(batch, ucx_.tag_recv_nbx(worker_, data, bytes, tag, ~uint64_t{0}, &parameters), "receive");
}

void UcxWorker::progress(Batch& batch) {
  check(batch.refused_, batch.action_, Cause::peer_died);
  tcp_.progress();
  while (ucx_.worker_progress(worker_) != 0) {}
  std::erase_if(batch.over_tcp_, [](const auto& message) { return message->finished(); });
  for (size_t i = 0; i < batch.requests_.size();) {
    const ucs_status_t status = ucx_.request_check_status(batch.requests_[i]);
    if (status == UCS_INPROGRESS) {
      ++i;
      continue;
    }
    ucx_.request_free(batch.requests_[i]);
    batch.requests_[i] = batch.requests_.back();
    batch.requests_.pop_back();
    check(status, "finish a message", Cause::peer_died);
  }
}

}  // namespace meshrt
