"""Hosts to test with: network namespaces with IPC and host names of their own, on a bridge that is in a namespace too. Nothing of this machine's own
network is touched, and all of it is gone with the namespaces.

A slow network delays every frame and loses some: by the kernel's netem where it has it, else by a program that carries the frames (slow_wire.cpp)."""
import ctypes
import fcntl
import os
import struct
import subprocess
import threading

from common import slow_wire

LIBC = ctypes.CDLL(None, use_errno=True)
TUNSETIFF, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x400454CA, 0x0002, 0x1000, 0x4000


def permitted():
    """Whether namespaces can be made here; a sentence that says why not, or an empty one."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    for program in ("ip", "unshare"):
        if subprocess.run(["sh", "-c", f"command -v {program}"], stdout=subprocess.DEVNULL).returncode:
            return f"there is no `{program}` (Debian: iproute2, util-linux)"
    name = f"mw{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], stderr=subprocess.PIPE, text=True)
    if made.returncode:
        return f"no network namespaces: {made.stderr.strip()}"
    veth = subprocess.run(["ip", "-n", name, "link", "add", "name", "one", "type", "veth", "peer", "name", "two"], stderr=subprocess.PIPE, text=True)
    subprocess.run(["ip", "netns", "delete", name], check=False)
    return f"no pairs of virtual interfaces: {veth.stderr.strip()}" if veth.returncode else ""


def without_table(messages):
    """The lines of a job's messages without the table of its ranks, and without what the shell of a namespace says of an agent that is killed."""
    return [line for line in messages.splitlines() if "  data " not in line and not line.startswith(("rank  host", "memory within", "Killed"))]


def ip(*words):
    done = subprocess.run(["ip", *map(str, words)], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(map(str, words))}: {done.stderr.strip()}")


class SlowWire:
    """Joins one interface in each namespace: every frame arrives `delay` seconds later, or, with probability `loss`, never (slow_wire.cpp)."""

    def __init__(self, namespaces, interface, delay, loss, seed):
        taps = [self.open_tap(name, interface) for name in namespaces]
        self.program = subprocess.Popen([slow_wire(), *map(str, (delay, loss, seed, *taps))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=taps)
        for tap in taps:
            os.close(tap)

    @staticmethod
    def open_tap(namespace, interface):
        """A new interface of another namespace as a file of its frames."""
        opened = []

        def action():  # a thread can be in a namespace of its own
            handle = os.open(f"/run/netns/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
            if LIBC.setns(handle, 0x40000000) == 0:  # CLONE_NEWNET
                tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", interface.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
                opened.append(tap)
            os.close(handle)

        thread = threading.Thread(target=action)
        thread.start()
        thread.join()
        if not opened:
            raise RuntimeError(f"cannot make a tap interface in {namespace}")
        return opened[0]

    def counts(self):
        """Frames carried so far, and frames lost."""
        self.program.stdin.write("\n")
        self.program.stdin.flush()
        return tuple(map(int, self.program.stdout.readline().split()))

    def seconds(self):
        """Processor time that it has taken, with what the kernel did for it: most of it receives what a frame brings."""
        with open(f"/proc/{self.program.pid}/schedstat") as file:
            return int(file.read().split()[0]) / 1e9

    def end(self):
        self.program.communicate()  # closes its stdin
        if self.program.returncode:
            raise RuntimeError(f"slow_wire: exit code {self.program.returncode}")


class Network:
    """`count` hosts 10.213.0.1, 10.213.0.2, ... and the host "head", 10.213.0.254, from which commands are started on them.
    `congestion` names TCP's way to find out how fast it may send on all of them; empty: this machine's."""

    def __init__(self, folder, count, delay=0.0, loss=0.0, seed=0, congestion=""):
        self.prefix = f"mw{os.getpid()}x"
        self.numbers = [254, *range(1, count + 1)]
        self.hosts = [f"10.213.0.{n}" for n in range(1, count + 1)]
        self.delay, self.loss, self.seed, self.congestion = delay, loss, seed, congestion
        self.shell = os.path.join(folder, "enter")
        self.wire = None
        self.how = ""  # what makes it slow
        with open(self.shell, "w") as file:
            file.write(f'#!/bin/sh\n# In place of ssh: [-x] HOST COMMAND...\ncase $1 in -*) shift;; esac\nnumber=${{1##*.}}; shift\n'
                       f'exec ip netns exec {self.prefix}$number unshare --ipc --uts sh -c "hostname host$number; $*"\n')
        os.chmod(self.shell, 0o755)

    def name(self, number):
        return f"{self.prefix}{number}"

    def __enter__(self):
        try:
            for number in self.numbers:
                ip("netns", "add", self.name(number))
                ip("-n", self.name(number), "link", "set", "lo", "up")
                if self.congestion:
                    subprocess.run(["ip", "netns", "exec", self.name(number), "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={self.congestion}"], check=True)
            netem = self.delay == 0 or self.has_netem()
            if netem:
                self.join_by_bridge()
            else:
                self.wire = SlowWire(list(map(self.name, self.numbers)), "eth0", self.delay, self.loss, self.seed)
            for number in self.numbers:
                device = "bridge" if netem and number == 254 else "eth0"
                ip("-n", self.name(number), "address", "add", f"10.213.0.{number}/24", "dev", device)
                ip("-n", self.name(number), "link", "set", device, "up")
            if self.delay:
                self.how = "netem" if netem else "frames carried by slow_wire"
        except BaseException:
            self.__exit__()
            raise
        return self

    def has_netem(self):
        return subprocess.run(["ip", "netns", "exec", self.name(254), "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
                              stderr=subprocess.DEVNULL).returncode == 0 and \
            subprocess.run(["ip", "netns", "exec", self.name(254), "tc", "qdisc", "del", "dev", "lo", "root"]).returncode == 0

    def join_by_bridge(self):
        head = self.name(254)
        ip("-n", head, "link", "add", "bridge", "type", "bridge")
        for number in self.numbers[1:]:
            ip("-n", head, "link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0", "netns", self.name(number))
            ip("-n", head, "link", "set", f"to{number}", "master", "bridge", "up")
            if self.delay:
                subprocess.run(["ip", "netns", "exec", self.name(number), "tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", f"{self.delay * 1000:g}ms",
                                "loss", f"{self.loss * 100:g}%"], check=True)

    def cut(self, number):
        """From now on nothing reaches this host, and nothing of it arrives."""
        ip("-n", self.name(number), "link", "set", "eth0", "down")

    def head(self, *command):
        """`command` as it is run on the host "head"."""
        return ["ip", "netns", "exec", self.name(254), *map(str, command)]

    def meshrun(self, program, *options, ranks=2):
        """What begins a job of so many ranks on each host, as it is run on "head"."""
        return self.head(program, "--hosts", ",".join(f"{host}:{ranks}" for host in self.hosts), "--ssh", self.shell, *options)

    def __exit__(self, *_):
        try:
            if self.wire:
                self.wire.end()
        finally:
            for number in self.numbers:
                subprocess.run(["ip", "netns", "delete", self.name(number)], stderr=subprocess.DEVNULL)
