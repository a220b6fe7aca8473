// mpi_collectives.cpp: a rank of OpenMPI or MPICH for tests/bench/collectives: mpi_collectives FOLDER NAME
#include <mpi.h>

#include <vector>

#include "commands.h"

namespace {

class Mpi : public bench::Peer {
 public:
  Mpi() : from_(bench::most_bytes / sizeof(float)), to_(from_.size()) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  float* input(const std::string&, long) override { return from_.data(); }
  const float* output(const std::string& collective) const override {
    return collective == "broadcast" ? from_.data() : to_.data();
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  bool call(const std::string& collective, long count) override {
    const int all = static_cast<int>(count), part = all / ranks_;
    if (collective == "all_reduce") MPI_Allreduce(from_.data(), to_.data(), all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (collective == "reduce_scatter")
      MPI_Reduce_scatter_block(from_.data(), to_.data(), part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (collective == "all_gather")
      MPI_Allgather(from_.data(), part, MPI_FLOAT, to_.data(), part, MPI_FLOAT, MPI_COMM_WORLD);
    else if (collective == "all_to_all")
      MPI_Alltoall(from_.data(), part, MPI_FLOAT, to_.data(), part, MPI_FLOAT, MPI_COMM_WORLD);
    else if (collective == "broadcast") MPI_Bcast(from_.data(), all, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else return false;
    return true;
  }

 private:
  std::vector<float> from_, to_;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc > 2) {
    Mpi mpi;
    bench::serve(mpi, argv[1], argv[2]);
  }
  MPI_Finalize();
}
