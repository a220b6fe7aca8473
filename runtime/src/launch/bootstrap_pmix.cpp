// PMIx, by which OpenMPI's mpirun and `srun --mpi=pmix` serve the processes that they start. The library is opened when
// a launcher has one, so that programs run where it is not installed.
#include <fmt/format.h>

#include <cstdlib>

#include "launch/bootstrap.h"
#include "meshrt/failure.h"
#include "system/dynamic_library.h"

#ifdef MESHRT_HAS_PMIX
#include <dlfcn.h>
#include <pmix.h>

#include <cstring>
#endif

namespace meshrt {

#ifdef MESHRT_HAS_PMIX

namespace {

struct PmixLibrary {
  decltype(&PMIx_Init) init;
  decltype(&PMIx_Put) put;
  decltype(&PMIx_Commit) commit;
  decltype(&PMIx_Fence) fence;
  decltype(&PMIx_Get) get;
  decltype(&PMIx_Finalize) finalize;
  decltype(&PMIx_Error_string) error_string;
};

PmixLibrary open_pmix() {
  void* library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);  // its plug-ins look for it
  if (!library)
    throw Failure(Cause::environment,
                  fmt::format("the launcher of this job offers PMIx, but its library cannot be used: {}; install it "
                              "(libpmix2), or start the job with meshrun",
                              dlerror()));
  PmixLibrary pmix{};
  find_function(library, "PMIx", "PMIx_Init", pmix.init);
  find_function(library, "PMIx", "PMIx_Put", pmix.put);
  find_function(library, "PMIx", "PMIx_Commit", pmix.commit);
  find_function(library, "PMIx", "PMIx_Fence", pmix.fence);
  find_function(library, "PMIx", "PMIx_Get", pmix.get);
  find_function(library, "PMIx", "PMIx_Finalize", pmix.finalize);
  find_function(library, "PMIx", "PMIx_Error_string", pmix.error_string);
  return pmix;
}

class PmixBootstrap : public Bootstrap {
 public:
  PmixBootstrap(int rank, std::string space) : Bootstrap(rank), space_(std::move(space)) {}

  std::string job() override { return "pmix-" + space_; }
  // PMIx itself would tell once it is started, which is after the coordinator has to listen.
  bool one_host() const override {
    if (space_.starts_with("slurm")) return number_from_environment("SLURM_STEP_NUM_NODES") == 1;
    return same_numbers("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE");
  }

  // The library runs threads from here to its end.
  Meeting meet(const Meeting& mine) override {
    const PmixLibrary pmix = open_pmix();
    const auto check = [&](pmix_status_t status, const char* action) {
      if (status == PMIX_SUCCESS) return;
      throw Failure(Cause::environment,
                    fmt::format("PMIx cannot {}: {}. The launcher's PMIx and this host's library may not fit together",
                                action, pmix.error_string(status)));
    };
    pmix_proc_t me{};
    check(pmix.init(&me, nullptr, 0), "start");
    pmix_proc_t other = me;
    pmix_value_t* value = nullptr;
    other.rank = PMIX_RANK_WILDCARD;
    check(pmix.get(&other, PMIX_JOB_SIZE, nullptr, 0, &value), "tell the number of ranks");
    const int ranks = static_cast<int>(value->data.uint32);
    std::free(value);
    if (rank() == 0) {
      std::string word = as_word(mine);
      pmix_value_t text{};
      text.type = PMIX_STRING;
      text.data.string = word.data();
      check(pmix.put(PMIX_GLOBAL, "meshrt", &text), "take a word");
      check(pmix.commit(), "pass a word on");
    }
    pmix_info_t collect{};
    std::strncpy(collect.key, PMIX_COLLECT_DATA, sizeof collect.key - 1);
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = true;
    check(pmix.fence(nullptr, 0, &collect, 1), "bring the ranks together");
    other.rank = 0;
    check(pmix.get(&other, "meshrt", nullptr, 0, &value), "give the word of rank 0");
    if (value->type != PMIX_STRING) throw Failure(Cause::environment, "PMIx gives something else than rank 0 has put");
    Meeting meeting = from_word(value->data.string);
    std::free(value->data.string);
    std::free(value);
    meeting.ranks = ranks;
    // Nothing more is asked of it; a rank that ends without this counts as crashed.
    check(pmix.finalize(nullptr, 0), "end");
    return meeting;
  }

 private:
  std::string space_;
};

}  // namespace

std::unique_ptr<Bootstrap> pmix_bootstrap() {
  const char* space = std::getenv("PMIX_NAMESPACE");
  const auto rank = number_from_environment("PMIX_RANK");
  if (!space || !rank) return nullptr;
  return std::make_unique<PmixBootstrap>(static_cast<int>(*rank), space);
}

#else

std::unique_ptr<Bootstrap> pmix_bootstrap() {
  if (!std::getenv("PMIX_NAMESPACE") || std::getenv("SLURM_STEP_ID")) return nullptr;
  throw Failure(Cause::environment,
                "this job's launcher offers PMIx, without which this program was built: install libpmix-dev and build "
                "it anew, or start it with meshrun --hosts");
}

#endif

}  // namespace meshrt
