//! The form that all peers print, and what they measure of themselves.
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const WRITTEN_AT: &str = "bench.larder.dev/at"; // nanoseconds since 1970
const MARK: &str = "bench.larder.dev/mark"; // what the last patch of a series carries

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

// Whoever started this process says when (BENCH_START, nanoseconds since 1970).
fn since_start() -> f64 {
    let begun: f64 = std::env::var("BENCH_START").ok().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    now() - begun / 1e9
}

// MiB: "VmRSS:" now, "VmHWM:" at its highest.
fn memory(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

fn cpu() -> f64 {
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut used) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(used.ru_utime) + seconds(used.ru_stime)
}

// What the kernel received on every open socket: tcpi_bytes_received of struct tcp_info.
fn received() -> u64 {
    const OFFSET: usize = 128;
    let mut sum = 0;
    for fd in 3..256 {
        let mut info = [0u8; 256];
        let mut size = info.len() as libc::socklen_t;
        let failed = unsafe {
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &mut size)
        };
        if failed == 0 && size as usize >= OFFSET + 8 {
            let mut bytes = [0u8; 8];
            bytes.copy_from_slice(&info[OFFSET..OFFSET + 8]);
            sum += u64::from_ne_bytes(bytes);
        }
    }
    sum
}

/// What the handler tells.
pub struct Heard {
    until: String,
    follow: String,
    handled: AtomicU64,
    saw_until: AtomicBool,
    followed_at: AtomicU64, // the bits of a time; 0: not yet
    noting: AtomicBool,
    delays: Mutex<Vec<f64>>,
}

impl Heard {
    pub fn new(until: &str, follow: &str) -> Self {
        Heard {
            until: until.into(),
            follow: follow.into(),
            handled: AtomicU64::new(0),
            saw_until: AtomicBool::new(until.is_empty()),
            followed_at: AtomicU64::new(0),
            noting: AtomicBool::new(false),
            delays: Mutex::new(Vec::new()),
        }
    }

    /// With every object that a handler is given.
    pub fn object(&self, pod: &Pod) {
        self.handled.fetch_add(1, Relaxed);
        let annotations = pod.annotations();
        if let Some(mark) = annotations.get(MARK) {
            if *mark == self.until {
                self.saw_until.store(true, Relaxed);
            }
            if *mark == self.follow {
                self.followed_at.store(now().to_bits(), Relaxed);
            }
        }
        if !self.noting.load(Relaxed) {
            return;
        }
        if let Some(at) = annotations.get(WRITTEN_AT).and_then(|text| text.parse::<f64>().ok()) {
            if let Ok(mut delays) = self.delays.lock() {
                delays.push((now() - at / 1e9) * 1e3);
            }
        }
    }

    pub fn handled(&self) -> u64 {
        self.handled.load(Relaxed)
    }

    pub fn saw_until(&self) -> bool {
        self.saw_until.load(Relaxed)
    }

    /// Counts until the mark to follow was heard of, and prints what that cost.
    pub async fn follow_to_mark(&self) {
        let (cpu_before, handled_before) = (cpu(), self.handled());
        self.noting.store(true, Relaxed);
        println!("{}", json!({"ready": true}));
        while self.followed_at.load(Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await; // seldom: a look is no work of an informer's
        }
        let used = cpu() - cpu_before;
        let at = f64::from_bits(self.followed_at.load(Relaxed));
        let mut delays = self.delays.lock().map(|delays| delays.clone()).unwrap_or_default();
        delays.sort_by(f64::total_cmp);
        let percentile = |share: f64| {
            let last = delays.len().saturating_sub(1);
            delays.get((share * last as f64) as usize).copied().unwrap_or(0.0)
        };
        println!(
            "{}",
            json!({
                "followed_at": at, "handled": self.handled() - handled_before, "cpu_seconds": used,
                "delay_p50_ms": percentile(0.5), "delay_p99_ms": percentile(0.99), "peak_mib": memory("VmHWM:"),
            })
        );
    }
}

/// Prints the line of a peer that has just synced, and after `hold` seconds one with its memory. Steady memory is what is left when
/// the allocator gave back what it could, which a controller would not ask it to.
pub async fn synced(objects: usize, heard: &Heard, hold: f64) {
    println!(
        "{}",
        json!({
            "peer": "kube-rs", "seconds": since_start(), "cpu_seconds": cpu(), "received_bytes": received(),
            "handled": heard.handled(), "objects": objects,
        })
    );
    tokio::time::sleep(Duration::from_secs_f64(hold)).await;
    let (peak, used) = (memory("VmHWM:"), cpu());
    unsafe { libc::malloc_trim(0) };
    println!("{}", json!({"peak_mib": peak, "cpu_after_hold_seconds": used, "steady_mib": memory("VmRSS:")}));
}
