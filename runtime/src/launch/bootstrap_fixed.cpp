// Launchers that give ranks nothing to exchange words with: rank 0 listens where everybody can reckon it does, and the
// hosts have a secret of their own. On one host the kernel tells whose processes come, and none is needed.
#include <fmt/format.h>

#include <cstdlib>

#include "launch/bootstrap.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

std::string word_from_environment(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

class FixedBootstrap : public Bootstrap {
 public:
  FixedBootstrap(int64_t rank, int64_t ranks, std::string job, Address coordinator, bool one_host)
      : Bootstrap(static_cast<int>(rank)),
        ranks_(static_cast<int>(ranks)),
        job_(std::move(job)),
        coordinator_(std::move(coordinator)),
        one_host_(one_host) {
    if (const auto port = number_from_environment("MESHRT_PORT")) coordinator_.port = static_cast<int>(*port);
  }

  std::string job() override { return job_; }
  bool one_host() const override { return one_host_; }
  std::optional<Address> given_address() override { return coordinator_; }
  std::optional<Secret> given_secret() override {
    if (!secret_) secret_ = one_host_ ? Secret(Token::from(job_)) : shared_secret(job_);
    return secret_;
  }
  Meeting meet(const Meeting&) override {
    return {{one_host_ ? Address{door_name(job_), 0} : coordinator_}, *given_secret(), ranks_};
  }

 private:
  int ranks_;
  std::string job_;
  Address coordinator_;
  bool one_host_;
  std::optional<Secret> secret_;
};

}  // namespace

std::unique_ptr<Bootstrap> torchrun_bootstrap() {
  const auto rank = number_from_environment("RANK"), ranks = number_from_environment("WORLD_SIZE"),
             port = number_from_environment("MASTER_PORT");
  const std::string host = word_from_environment("MASTER_ADDR");
  if (!rank || !ranks || !port || host.empty()) return nullptr;
  // torchrun's own store listens at the port when it says so.
  const bool taken = word_from_environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
  const std::string job = fmt::format("torchrun-{}-{}-{}-{}", word_from_environment("TORCHELASTIC_RUN_ID"),
                                      word_from_environment("TORCHELASTIC_RESTART_COUNT"), host, *port);
  const bool one_host = is_loopback(host) || same_numbers("LOCAL_WORLD_SIZE", "WORLD_SIZE");
  return std::make_unique<FixedBootstrap>(*rank, *ranks, job, Address{host, static_cast<int>(*port) + taken}, one_host);
}

std::unique_ptr<Bootstrap> slurm_bootstrap() {
  // Only in what srun starts: in the batch script itself SLURM_PROCID is 0 too.
  const auto rank = number_from_environment("SLURM_PROCID"), ranks = number_from_environment("SLURM_STEP_NUM_TASKS"),
             job = number_from_environment("SLURM_JOB_ID"), step = number_from_environment("SLURM_STEP_ID");
  if (!rank || !ranks || !job || !step) return nullptr;
  std::string list = word_from_environment("SLURM_STEP_NODELIST");
  if (list.empty()) list = word_from_environment("SLURM_JOB_NODELIST");
  const std::string host = first_host(list);
  if (host.empty()) throw Failure(Cause::environment, "SLURM_STEP_NODELIST names no host");
  // Ranks of one step agree, steps and jobs that run side by side differ; below the range of ports that are given out.
  const int port = static_cast<int>(20000 + (*job * 7 + *step) % 10000);
  const std::string name = fmt::format("slurm-{}-{}-{}", *job, *step, word_from_environment("SLURM_RESTART_COUNT"));
  const bool one_host = number_from_environment("SLURM_STEP_NUM_NODES") == 1 || list == host;
  return std::make_unique<FixedBootstrap>(*rank, *ranks, name, Address{host, port}, one_host);
}

}  // namespace meshrt
