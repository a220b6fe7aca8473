// Launchers that give ranks nothing to exchange words with: rank 0 listens where everybody can reckon it does. The
// token is MESHRT_TOKEN; without it, it follows from the job's name, and keeps other jobs out, but nobody who knows the
// name.
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
  FixedBootstrap(int rank, int ranks, std::string job, Address coordinator)
      : Bootstrap(rank), ranks_(ranks), job_(std::move(job)), coordinator_(std::move(coordinator)) {
    if (const auto port = number_from_environment("MESHRT_PORT")) coordinator_.port = *port;
  }

  std::string job() override { return job_; }
  int port() const override { return coordinator_.port; }
  std::optional<Token> given_token() override {
    const std::string secret = word_from_environment("MESHRT_TOKEN");
    return Token::from(secret.empty() ? job_ : secret);
  }
  Meeting meet(const Meeting&) override { return {{coordinator_}, *given_token(), ranks_}; }

 private:
  int ranks_;
  std::string job_;
  Address coordinator_;
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
  return std::make_unique<FixedBootstrap>(*rank, *ranks, job, Address{host, *port + taken});
}

std::unique_ptr<Bootstrap> slurm_bootstrap() {
  // Only in what srun starts: in the batch script itself SLURM_PROCID is 0 too.
  const auto rank = number_from_environment("SLURM_PROCID"), ranks = number_from_environment("SLURM_STEP_NUM_TASKS"),
             job = number_from_environment("SLURM_JOB_ID"), step = number_from_environment("SLURM_STEP_ID");
  if (!rank || !ranks || !job || !step) return nullptr;
  std::string host = first_host(word_from_environment("SLURM_STEP_NODELIST"));
  if (host.empty()) host = first_host(word_from_environment("SLURM_JOB_NODELIST"));
  if (host.empty()) throw Failure(Cause::environment, "SLURM_STEP_NODELIST names no host");
  // Ranks of one step agree, steps and jobs that run side by side differ; below the range of ports that are given out.
  const int port = 20000 + (*job * 7 + *step) % 10000;
  const std::string name = fmt::format("slurm-{}-{}-{}", *job, *step, word_from_environment("SLURM_RESTART_COUNT"));
  return std::make_unique<FixedBootstrap>(*rank, *ranks, name, Address{host, port});
}

}  // namespace meshrt
