// How a process finds out that a launcher of another origin has started it, and when a job is started again.
#include "launch/bootstrap.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "launch/restarts.h"
#include "variables.h"

namespace meshrt::test {

namespace {

TEST(Restarts, OnlyAfterAFailedRun) {
  testing::internal::CaptureStderr();
  int runs = 0;
  const auto ending_with = [&](std::vector<int> codes, bool asked_to_end = false) {
    runs = 0;
    return with_restarts(2, [&] { return Attempt{codes[runs++], asked_to_end}; });
  };
  EXPECT_EQ(ending_with({3, 0}), 0);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(ending_with({3, 3, 3}), 3);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(ending_with({3}, true), 3);
  EXPECT_EQ(runs, 1);
  for (const int code : {0, 1, 2, 70, 75, 130}) {
    EXPECT_EQ(ending_with({code}), code);
    EXPECT_EQ(runs, 1);
  }
  EXPECT_NE(testing::internal::GetCapturedStderr().find("meshrun: restart 2 of at most 2\n"), std::string::npos);
}

std::string job_found(const Pairs& variables) {
  const Variables set(variables);
  const auto found = find_bootstrap();
  return found ? found->job() : "none";
}

const Pairs slurm_one = {{"SLURM_STEP_NUM_TASKS", "1"},
                         {"SLURM_PROCID", "0"},
                         {"SLURM_JOB_ID", "7"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NODELIST", "a"}};

TEST(Bootstrap, AJobOfOneIsPassedOver) {
  EXPECT_EQ(job_found({}), "none");
  EXPECT_EQ(job_found(slurm_one), "none");
  EXPECT_EQ(job_found(slurm_one + torchrun_two), "torchrun---a-29500");
  EXPECT_EQ(job_found(slurm_one + Pairs{{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_NAMESPACE", "x"}, {"PMIX_RANK", "1"}}),
            "pmix-x");
  EXPECT_EQ(job_found(slurm_one + Pairs{{"PMIX_NAMESPACE", "slurm"}, {"PMIX_RANK", "0"}}), "none");
  EXPECT_EQ(job_found(Pairs{{"WORLD_SIZE", "1"}, {"RANK", "0"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}), "none");
}

TEST(Bootstrap, TorchrunStartedByAnotherLauncherComesFirst) {
  const Pairs step = {{"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_NAMESPACE", "slurm"}, {"PMIX_RANK", "1"}};
  EXPECT_EQ(job_found(step + torchrun_two), "pmix-slurm");
  EXPECT_EQ(job_found(step + torchrun_two + Pairs{{"TORCHELASTIC_RUN_ID", "r"}}), "torchrun-r--a-29500");
}

TEST(Bootstrap, NumbersOfSlurmMayBeLarge) {
  const Variables set(slurm_two);
  const auto found = find_bootstrap();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->given_address()->text(), "rack1n3:21066");
}

TEST(Bootstrap, TheFirstHostOfAListIsFound) {
  EXPECT_EQ(first_host("a"), "a");
  EXPECT_EQ(first_host("n[03-05,9],x"), "n03");
  EXPECT_EQ(first_host("rack[1-2]n[3-4],x"), "rack1n3");
  EXPECT_EQ(first_host("n[1-2].cluster"), "n1.cluster");
  EXPECT_EQ(first_host("n[1-2"), "");
}

bool is_of_one_host(const Pairs& variables) {
  const Variables set(variables);
  return find_bootstrap()->one_host();
}

TEST(Bootstrap, JobsOfOneHostAreToldApart) {
  EXPECT_FALSE(is_of_one_host(slurm_two));
  EXPECT_TRUE(is_of_one_host(slurm_two + Pairs{{"SLURM_STEP_NUM_NODES", "1"}}));
  EXPECT_TRUE(is_of_one_host(slurm_two + Pairs{{"SLURM_STEP_NODELIST", "a"}}));
  EXPECT_FALSE(is_of_one_host(torchrun_two));
  EXPECT_TRUE(is_of_one_host(torchrun_two + Pairs{{"LOCAL_WORLD_SIZE", "2"}}));
  EXPECT_TRUE(is_of_one_host(torchrun_two + Pairs{{"MASTER_ADDR", "localhost"}}));
}

}  // namespace

}  // namespace meshrt::test
