"""Training steps of a PyTorch peer, timed as tests/bench/train reads them."""
import statistics
import time


def train(steps, optimizer, loss_of, before_update=lambda: None):
    """Prints "loss X" for each step and "median X ms", of all steps but the first three."""
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        before_update()
        optimizer.step()
        times.append(time.perf_counter() - start)
        print(f"loss {loss.item():.6f}", flush=True)
    print(f"median {statistics.median(times[3:]) * 1e3:.2f} ms", flush=True)
