"""A bundle of the gpt builds and trains in a chroot that holds a C++ compiler, OpenBLAS and UCX with what they depend on, and nothing else: no Meson, no
pkg-config, no YAML, JSON or formatting library; as a user without rights. Its losses are those of the program that meshc builds here."""
import os
import re
import shutil
import subprocess

from common import TOP, Report, meshc, run as execute, scratch

# Packages of Debian that the other machine has; what they need comes along.
PACKAGES = ["g++", "libopenblas0-pthread", "libucx-dev", "dash", "coreutils", "findutils", "grep", "sed", "base-files", "libc-bin"]
ABSENT = ["meson", "ninja", "pkg-config", "python3", "cmake"]
NOBODY = 65534
SIZES = ["--set", "batch=4", "--set", "seq=32", "--set", "layer=2"]
STEPS = ["train.steps=3", "log.every=1", "validation.every=3", "validation.steps=2", "--run-dir=none"]


def closure(packages):
    """The packages with all that they depend on, of those installed."""
    listed = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\t${db:Status-Abbrev}\t${Depends}, ${Pre-Depends}\t${Provides}\n"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    needs, provided = {}, {}
    for line in listed.splitlines():
        name, status, depends, provides = line.split("\t")
        if status.startswith("ii"):
            needs[name] = [re.findall(r"[a-z0-9][a-z0-9+.-]+", group.split("(")[0])[:1] for part in depends.split(",") for group in part.split("|")]
            for one in re.findall(r"[a-z0-9][a-z0-9+.-]+(?= |,|$)", provides):
                provided.setdefault(one, name)
    found, work = set(), list(packages)
    while work:
        name = work.pop()
        name = name if name in needs else provided.get(name)
        if name and name not in found:
            found.add(name)
            work += [one for group in needs[name] for one in group]
    return sorted(found)


def make_root(root):
    """Copies the files of the packages."""
    paths = subprocess.run(["dpkg-query", "-L", *closure(PACKAGES)], stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
    for name in ("bin", "sbin", "lib", "lib64"):  # Debian's merged /usr
        os.symlink(f"usr/{name}", f"{root}/{name}")
    wanted = sorted({os.path.join("/usr", path.lstrip("/")) if re.match(r"/(s?bin|lib|lib64)/", path) else path for path in paths if path.startswith("/")})
    keep = [path for path in wanted if path.startswith("/usr/") and not path.startswith("/usr/share/") and (os.path.islink(path) or os.path.isfile(path))]
    # Names that the alternatives system links: c++, the BLAS.
    keep += [path for path in ("/usr/bin/c++", "/usr/bin/g++") if os.path.exists(path)]
    with subprocess.Popen(["tar", "-C", "/", "--no-recursion", "-cf", "-", "-T", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pack:
        unpack = subprocess.Popen(["tar", "-C", root, "-xf", "-"], stdin=pack.stdout)
        pack.stdin.write("\n".join(path.lstrip("/") for path in dict.fromkeys(keep)).encode())
        pack.stdin.close()
        unpack.wait()
    for name in ("tmp", "dev", "proc", "home"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    compiler = f"{root}/usr/bin/c++"
    if os.path.islink(compiler):
        os.remove(compiler)
        os.symlink("g++", compiler)


def losses(text):
    return re.findall(r"loss ([\d.]+)", text)


def run(small):
    report = Report()
    if os.geteuid() != 0:
        print("skipped: a chroot needs root")
        return report
    with scratch() as folder:
        root = os.path.join(folder, "root")
        os.mkdir(root)
        make_root(root)
        tools = [name for name in ABSENT if os.path.exists(f"{root}/usr/bin/{name}")]
        report.check("tools that are not there", tools, [], not tools)
        headers = [name for name in ("yaml-cpp", "fmt", "nlohmann", "CLI") if os.path.exists(f"{root}/usr/include/{name}")]
        report.check("libraries that are not there", headers, [], not headers)

        text = os.path.join(folder, "text.txt")
        with open(text, "wb") as file:
            file.write(b"In the beginning was the word, and the word was short. " * 400)
        for name in ("gpt.mesh", "gpt.yaml"):
            shutil.copy(f"{TOP}/specs/{name}", folder)
        data = ["data.token.file=text.txt"]
        execute(meshc(), "build", f"{folder}/gpt.mesh", "-o", f"{folder}/here", *SIZES)
        here = execute(f"{folder}/here/gpt", "-n", 2, f"{folder}/here/gpt.yaml", f"data.token.file={text}", *STEPS)
        bundle = f"{root}/home/bundle"
        execute(meshc(), "build", f"{folder}/gpt.mesh", "-o", bundle, "--bundle", *SIZES)
        shutil.copy(text, bundle)
        for path, _, files in os.walk(bundle):
            for name in [".", *files]:
                os.chown(os.path.join(path, name), NOBODY, NOBODY)
        inside = "mount --bind /dev {0}/dev && mount -t proc proc {0}/proc && exec chroot --userspec={1}:{1} {0} /bin/sh -c".format(root, NOBODY)
        script = "cd /home/bundle && HOME=/home sh build.sh && ./gpt -n 2 gpt.json " + " ".join(data + STEPS)
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c", f'{inside} "$1"', "sh", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=1500)
        report.true("builds and runs", done.returncode == 0, done.stderr[-3000:])
        both = losses(here.stdout + here.stderr), losses(done.stdout + done.stderr)
        report.check("losses", both[1], both[0], bool(both[0]) and both[0] == both[1])
    return report
