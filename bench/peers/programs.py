"""The peers' programs: how they are built, which versions they are, how each is started."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
HERE = REPOSITORY / "bench" / "peers"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "larder"
BUILT = CACHE / "peers"
LARDER = REPOSITORY / "build" / "release" / "tools" / "larder"
LARDER_PEER = str(REPOSITORY / "build" / "release" / "bench" / "bench_larder_peer")
STRIPPED = ", no managedFields"  # the end of a peer's name: what it keeps of an object is compared with others that keep no more
LIMITS = str(REPOSITORY / "build" / "release" / "bench" / "bench_limits")


def say(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)


class Peer:
    """One column. `command(server, mark)` is what to run for a sync."""

    def __init__(self, name, command, servers=("kube", "simulator"), environment=None, main=False):
        self.name, self.command, self.servers = name, command, servers
        self.environment = environment or {}
        self.main = main  # is in --quick


def build_go():
    if not shutil.which("go"):
        return "there is no Go"
    for name in ("client-go", "controller-runtime"):
        built = subprocess.run(
            ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", BUILT / name, f"./{name}"],
            cwd=HERE / "go", env={**os.environ, "CGO_ENABLED": "0"})
        if built.returncode:
            return f"Go could not build {name}"
    return None


def build_rust():
    if not shutil.which("cargo"):
        return "there is no cargo"
    built = subprocess.run(["cargo", "build", "--release", "--locked", "--quiet"], cwd=HERE / "kube-rs",
                           env={**os.environ, "CARGO_TARGET_DIR": str(BUILT / "kube-rs")})
    return "cargo could not build kube-rs" if built.returncode else None


def informer(program, *words, objects=False):
    def command(server):
        count = [words[0][:-len("kubeconfig")] + "objects", str(server.objects)] if objects else []
        return [program, "sync", words[0], server.kubeconfig, *words[1:], *count]
    return command


def go_peer(name, media, stream=False, strip=False, **more):
    words = ["-media", media] + (["-strip"] if strip else [])
    servers = ("kube",) if media == "protobuf" else ("kube", "simulator")
    return Peer(name, informer(str(BUILT / "client-go"), "-kubeconfig", *words), servers,
                {"KUBE_FEATURE_WatchListClient": "true" if stream else "false"}, **more)


def curl_limit(name, accept, servers, **more):
    def command(server):
        # Without a name of its own: to curl the server sends indented JSON, which nobody else gets.
        return ["curl", "-sf", "-A", "larder-bench", *server.curl(), "-H", f"Accept: {accept}", "-H", "Accept-Encoding: gzip",
                "-o", "/dev/null", "-w", '{"seconds": %{time_total}, "received_bytes": %{size_download}}\n',
                f"{server.url()}/api/v1/pods?resourceVersion=0"]
    return Peer(name, command, servers, **more)


def all_peers():
    """Those that can run here, and why the others cannot."""
    protobuf = "application/vnd.kubernetes.protobuf"
    peers = [Peer("larder", informer(LARDER_PEER, "--kubeconfig"), main=True),
             Peer("larder" + STRIPPED, informer(LARDER_PEER, "--kubeconfig", "--strip"), ("kube",), main=True),
             curl_limit("curl, JSON", "application/json", ("simulator",), main=True),
             curl_limit("curl, protobuf", protobuf, ("kube",), main=True)]
    skipped = {}
    say("building the peers in Go")
    if why := build_go():
        skipped["client-go, controller-runtime"] = why
    else:
        runtime = informer(str(BUILT / "controller-runtime"), "-kubeconfig", "-media", "protobuf", objects=True)
        peers += [go_peer("client-go, JSON", "json", main=True),
                  go_peer("client-go, protobuf", "protobuf", main=True),
                  go_peer("client-go, JSON, stream", "json", stream=True),
                  go_peer("client-go, protobuf, stream", "protobuf", stream=True),
                  go_peer("client-go, JSON" + STRIPPED, "json", strip=True),
                  go_peer("client-go, protobuf" + STRIPPED, "protobuf", strip=True, main=True),
                  Peer("controller-runtime", runtime, environment={"KUBE_FEATURE_WatchListClient": "false"}, main=True)]
    say("building the peer in Rust")
    if why := build_rust():
        skipped["kube-rs"] = why
    else:
        rust = str(BUILT / "kube-rs" / "release" / "kube-rs-peer")
        peers += [Peer("kube-rs", informer(rust, "--kubeconfig"), main=True),
                  Peer("kube-rs, stream", informer(rust, "--kubeconfig", "--list", "stream")),
                  Peer("kube-rs, Controller", informer(rust, "--kubeconfig", "--controller", objects=True))]
    return peers, skipped


def first_match(pattern, path):
    found = re.search(pattern, path.read_text())
    return found[1] if found else "?"


def output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def versions():
    go_mod, cargo = HERE / "go" / "go.mod", HERE / "kube-rs" / "Cargo.toml"
    return {
        # By what was built: a commit that changes only a document is no other larder.
        "larder": first_match(r"project\(larder VERSION (\S+)", REPOSITORY / "CMakeLists.txt") + "-" +
                  hashlib.sha256(pathlib.Path(LARDER_PEER).read_bytes()).hexdigest()[:8],
        "kube-apiserver": first_match(r"k8s.io/kubernetes v(\S+)", REPOSITORY / "kube" / "apiserver" / "go.mod"),
        "etcd": first_match(r"go.etcd.io/etcd/server/v3 v(\S+)", REPOSITORY / "kube" / "etcd" / "go.mod"),
        "client-go": first_match(r"k8s.io/client-go v(\S+)", go_mod),
        "controller-runtime": first_match(r"sigs.k8s.io/controller-runtime v(\S+)", go_mod),
        "kube-rs": first_match(r'kube = \{ version = "=([^"]+)"', cargo),
        "go": output("go", "env", "GOVERSION").removeprefix("go"),
        "rust": output("rustc", "--version").split(" ")[1] if output("rustc", "--version") else "",
        "curl": output("curl", "--version").split(" ")[1],
        "rocksdb": output("dpkg-query", "-W", "-f", "${Version}", "librocksdb-dev"),
        "compiler": output("c++", "-dumpfullversion"),
    }
