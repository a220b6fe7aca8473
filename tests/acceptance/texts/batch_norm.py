"""A block with running statistics, as PyTorch's BatchNorm has them."""
BATCH_NORM = """block batch_norm[d](v : real[..., d]) -> real[..., d] {
  state seen_mean : f32[d] = zeros
  state seen_var  : f32[d] = ones
  m = mean[...](v)
  s = mean[...]((v - m) ^ 2)
  seen_mean <- 0.9 * seen_mean + 0.1 * m
  seen_var  <- 0.9 * seen_var + 0.1 * s * size[...] / (size[...] - 1)
  return (v - where(training, m, seen_mean)) * rsqrt(where(training, s, seen_var) + 1e-5)
}
"""
