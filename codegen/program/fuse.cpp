#include "codegen/program/fuse.h"

namespace mesh {

void fuse(Program& program) {
  forward_copies(program);
  fuse_products(program);
  forward_copies(program);  // slopes that products now store are read as they are
  simplify(program);        // the copies themselves go
  fuse_products(program);   // gates that were behind a copy
  fuse_nests(program);
  simplify(program);
}

}  // namespace mesh
