#!/usr/bin/env bash
# A real kube-apiserver and its etcd on loopback, for tests and benchmarks. ./dev kube calls it, and
# so do the tests, which stop, restart and rewind what runs under them.
#
#   kube.sh build                 builds both programs into the cache, unless they are there; exits
#                                 with 3 where there is no Go to do it
#   kube.sh up DIR                starts both; DIR keeps certificates, data, logs and process ids
#   kube.sh down DIR              stops both; the data stays
#   kube.sh status DIR            says what runs; fails unless both do
#   kube.sh start|stop DIR etcd|apiserver
#   kube.sh save DIR NAME         copies etcd's data aside, with both programs stopped meanwhile
#   kube.sh rewind DIR NAME       puts that copy back: a cluster restored from a backup
#   kube.sh compact DIR           makes etcd forget all old versions
#   kube.sh token DIR NS NAME UID SECONDS
#                                 prints a token of a service account that expires so soon, which
#                                 the server itself would not issue
#   kube.sh environment DIR       what the tests need, as NAME=value lines
#
# KUBE_API_FLAGS adds flags to the API server. Both programs listen on free ports that DIR remembers.
# Only for tests: etcd does not sync its writes, and the tokens are known.
set -euo pipefail

readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/larder/kube
readonly ADMIN_TOKEN=admin-token-for-tests GUEST_TOKEN=guest-token-for-tests

say() { printf '%s\n' "kube: $*" >&2; }
die() {
  say "$*"
  exit 1
}

version_of() { sed -n "s|^\t*require $1 v||p; s|^\t$1 v||p" "$HERE/$2/go.mod" | head -n 1; }
readonly KUBE_VERSION=$(version_of k8s.io/kubernetes apiserver)
readonly ETCD_VERSION=$(version_of go.etcd.io/etcd/server/v3 etcd)
readonly BIN=$CACHE/$KUBE_VERSION-etcd-$ETCD_VERSION

# build_one FOLDER PROGRAM LINKER-FLAGS
build_one() {
  [[ -x $BIN/$2 ]] && return
  say "building $2 (once; five to ten minutes for both)"
  mkdir -p "$BIN"
  (cd "$HERE/$1" && GOFLAGS=-mod=readonly CGO_ENABLED=0 nice -n 10 \
    go build -p "${JOBS:-2}" -buildvcs=false -trimpath -ldflags "-s -w $3" -o "$BIN/$2.new" .) >&2
  mv "$BIN/$2.new" "$BIN/$2"
}

cmd_build() {
  if [[ ! -x $BIN/etcd || ! -x $BIN/kube-apiserver ]] && ! command -v go >/dev/null; then
    say "building kube-apiserver and etcd needs Go, which is not here"
    exit 3
  fi
  # What the server says of itself; without this it is v0.0.0.
  local package flags='' minor=${KUBE_VERSION#*.}
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=v$KUBE_VERSION -X $package.gitMajor=1"
    flags+=" -X $package.gitMinor=${minor%%.*} -X $package.gitTreeState=clean"
  done
  build_one etcd etcd ''
  build_one apiserver kube-apiserver "$flags"
}

# certificate NAME SUBJECT EXTENSION...: signed by the CA, in the current folder.
certificate() {
  local name=$1 subject=$2
  shift 2
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$name.key" \
    -subj "$subject" -out "$name.csr"
  printf '%s\n' basicConstraints=CA:FALSE keyUsage=digitalSignature "$@" >"$name.ext"
  openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 \
    -extfile "$name.ext" -out "$name.crt"
  rm "$name.csr" "$name.ext"
}

make_certificates() {
  mkdir -p pki
  (
    cd pki
    umask 077
    openssl req -x509 -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key \
      -subj /CN=larder-test-ca -days 3650 -out ca.crt -addext keyUsage=critical,keyCertSign
    certificate server /CN=kube-apiserver extendedKeyUsage=serverAuth,clientAuth \
      subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc
    certificate admin /O=system:masters/CN=admin extendedKeyUsage=clientAuth
    certificate guest /CN=guest extendedKeyUsage=clientAuth
    openssl genrsa -out accounts.key 2048
    openssl rsa -in accounts.key -pubout -out accounts.pub
    printf '%s\n' "$ADMIN_TOKEN,admin,admin,\"system:masters\"" "$GUEST_TOKEN,guest,guest," >tokens.csv
  ) >pki.log 2>&1 || die "openssl failed: $(tail -n 3 pki.log)"
}

# Below the range that outgoing connections are given.
free_port() {
  local port
  for _ in {1..100}; do
    port=$((20000 + RANDOM % 12000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
  die "no free port"
}

# kubeconfig FILE USER-FIELDS
kubeconfig() {
  cat >"$1" <<TEXT
apiVersion: v1
kind: Config
current-context: larder
clusters: [{name: larder, cluster: {server: "$URL", certificate-authority: "$DIR/pki/ca.crt"}}]
users: [{name: larder, user: {$2}}]
contexts: [{name: larder, context: {cluster: larder, user: larder}}]
TEXT
}

prepare() {
  # Named at the end, so that a preparation that was cut off is begun again.
  if [[ ! -f ports ]]; then
    make_certificates
    echo "$(free_port) $(free_port) $(free_port)" >ports
  fi
  read_ports
  (
    umask 077
    kubeconfig kubeconfig "token: $ADMIN_TOKEN"
    kubeconfig kubeconfig-certificate \
      "client-certificate: \"$DIR/pki/admin.crt\", client-key: \"$DIR/pki/admin.key\""
    kubeconfig kubeconfig-guest "token: $GUEST_TOKEN"
  )
}

read_ports() {
  [[ -f ports ]] || die "nothing was ever started in $DIR"
  read -r ETCD_PORT PEER_PORT API_PORT <ports
  URL=https://127.0.0.1:$API_PORT
}

running() { [[ -f $1.pid ]] && kill -0 "$(<"$1.pid")" 2>/dev/null; }

# await PROGRAM COMMAND...: until the command succeeds, or the program dies.
await() {
  local program=$1
  shift
  for _ in {1..1200}; do
    if "$@" >/dev/null 2>&1; then return; fi
    running "$program" || die "$program ended: $(tail -n 3 "$program.log")"
    sleep 0.05
  done
  die "$program is not ready after a minute; its log is $DIR/$program.log"
}

etcd_call() {
  curl -sf -m 30 --cacert pki/ca.crt --cert pki/admin.crt --key pki/admin.key \
    "https://127.0.0.1:$ETCD_PORT/$1" "${@:2}"
}
api_call() {
  curl -sf -m 5 --cacert pki/ca.crt -H "Authorization: Bearer $ADMIN_TOKEN" "$URL/$1" "${@:2}"
}

start_etcd() {
  running etcd && return
  setsid "$BIN/etcd" --name one --data-dir "$DIR/etcd" --unsafe-no-fsync --log-level warn \
    --quota-backend-bytes 8589934592 \
    --listen-client-urls "https://127.0.0.1:$ETCD_PORT" \
    --advertise-client-urls "https://127.0.0.1:$ETCD_PORT" \
    --cert-file pki/server.crt --key-file pki/server.key --trusted-ca-file pki/ca.crt \
    --client-cert-auth \
    --listen-peer-urls "http://127.0.0.1:$PEER_PORT" \
    --initial-advertise-peer-urls "http://127.0.0.1:$PEER_PORT" \
    --initial-cluster "one=http://127.0.0.1:$PEER_PORT" >>etcd.log 2>&1 </dev/null &
  echo $! >etcd.pid
  await etcd etcd_call health
}

# Without the controllers of a cluster nobody makes service accounts, so pods must not need one.
start_apiserver() {
  running apiserver && return
  # shellcheck disable=SC2086  # the flags are words
  setsid "$BIN/kube-apiserver" --bind-address 127.0.0.1 --advertise-address 127.0.0.1 \
    --secure-port "$API_PORT" --endpoint-reconciler-type none \
    --etcd-servers "https://127.0.0.1:$ETCD_PORT" --etcd-cafile pki/ca.crt \
    --etcd-certfile pki/admin.crt --etcd-keyfile pki/admin.key \
    --tls-cert-file pki/server.crt --tls-private-key-file pki/server.key \
    --client-ca-file pki/ca.crt --token-auth-file pki/tokens.csv --anonymous-auth=false \
    --authorization-mode RBAC \
    --service-account-issuer https://kubernetes.default.svc \
    --service-account-key-file pki/accounts.pub \
    --service-account-signing-key-file pki/accounts.key \
    --service-cluster-ip-range 10.0.0.0/16 \
    --disable-admission-plugins ServiceAccount,DefaultTolerationSeconds \
    --feature-gates ShardedListAndWatch=true \
    --shutdown-delay-duration 0s ${KUBE_API_FLAGS:-} >>apiserver.log 2>&1 </dev/null &
  echo $! >apiserver.pid
  await apiserver api_call readyz
}

stop_one() {
  if running "$1"; then
    local pid
    pid=$(<"$1.pid")
    kill "$pid"
    for _ in {1..400}; do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.05
    done
    # A server with watches open may wait for them longer than anybody wants to.
    kill -KILL "$pid" 2>/dev/null || true
  fi
  rm -f "$1.pid"
}

cmd_up() {
  cmd_build
  prepare
  start_etcd
  start_apiserver
  say "kube-apiserver $KUBE_VERSION at $URL, KUBECONFIG=$DIR/kubeconfig"
}

cmd_down() {
  stop_one apiserver
  stop_one etcd
}

cmd_status() {
  local program state=0
  for program in etcd apiserver; do
    if running "$program"; then
      say "$program runs, process $(<"$program.pid")"
    else
      say "$program does not run"
      state=1
    fi
  done
  ((state == 0)) && read_ports && say "$URL, KUBECONFIG=$DIR/kubeconfig"
  return $state
}

cmd_start() {
  read_ports
  "start_$1"
}
cmd_stop() { stop_one "$1"; }

cmd_save() {
  read_ports
  cmd_down
  rm -rf "saved-$1"
  cp -a etcd "saved-$1"
  start_etcd
  start_apiserver
}

cmd_rewind() {
  read_ports
  [[ -d saved-$1 ]] || die "nothing was saved as $1"
  cmd_down
  rm -rf etcd
  cp -a "saved-$1" etcd
  start_etcd
  start_apiserver
}

cmd_compact() {
  read_ports
  local revision
  revision=$(etcd_call v3/kv/range -d '{"key":"AA=="}' | sed -n 's/.*"revision":"\([0-9]*\)".*/\1/p')
  etcd_call v3/kv/compaction -d "{\"revision\":\"$revision\",\"physical\":true}" >/dev/null
  echo "$revision"
}

base64url() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }

cmd_token() {
  local ns=$1 name=$2 uid=$3 seconds=$4 issuer=https://kubernetes.default.svc
  local now claims text
  # The server allows a minute for clocks that differ.
  now=$(($(date +%s) - 60))
  claims=$(printf '{"iss":"%s","aud":["%s"],"iat":%d,"nbf":%d,"exp":%d' \
    "$issuer" "$issuer" "$now" "$now" "$((now + seconds))")
  claims+=$(printf ',"sub":"system:serviceaccount:%s:%s"' "$ns" "$name")
  claims+=$(printf ',"kubernetes.io":{"namespace":"%s","serviceaccount":{"name":"%s","uid":"%s"}}}' \
    "$ns" "$name" "$uid")
  text=$(printf '{"alg":"RS256"}' | base64url).$(printf %s "$claims" | base64url)
  echo "$text.$(printf %s "$text" | openssl dgst -sha256 -sign pki/accounts.key | base64url)"
}

cmd_environment() {
  read_ports
  cat <<TEXT
LARDER_CONFORMANCE_URL=$URL
LARDER_CONFORMANCE_TOKEN=$ADMIN_TOKEN
LARDER_CONFORMANCE_CA=$DIR/pki/ca.crt
LARDER_KUBE=$HERE/kube.sh
LARDER_KUBE_DIR=$DIR
LARDER_KUBE_GUEST_TOKEN=$GUEST_TOKEN
TEXT
}

command=${1:-}
shift || true
case $command in
  build) cmd_build ;;
  up | down | status | start | stop | save | rewind | compact | token | environment)
    (($#)) || die "$command needs a directory"
    mkdir -p "$1"
    DIR=$(cd "$1" && pwd)
    shift
    cd "$DIR"
    "cmd_$command" "$@"
    ;;
  *) die "there is no command '$command'" ;;
esac
