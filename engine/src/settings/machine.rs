//! What the machine offers: cores and memory, as far as this process may use them.

use std::fs;

/// Cores this process may run on, at least 1.
pub(super) fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u64)
}

/// Memory of the machine, or of the control group this process runs in if that is less; `None` if unknown.
pub(super) fn memory_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of_meminfo(&text));
    let group = group_limits().into_iter().min();
    match (machine, group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

fn total_of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The limits of this process's control group and its parents (version 2), and that of version 1.
fn group_limits() -> Vec<u64> {
    let read =
        |path: &str| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let mut limits: Vec<u64> =
        read("/sys/fs/cgroup/memory/memory.limit_in_bytes").into_iter().collect();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(path) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
        return limits;
    };
    let mut path = path.trim_end_matches('/');
    loop {
        limits.extend(read(&format!("/sys/fs/cgroup{path}/memory.max")));
        match path.rfind('/') {
            Some(at) => path = &path[..at],
            None => return limits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_counts_kilobytes() {
        assert_eq!(total_of_meminfo("MemTotal:       1024 kB\nMemFree: 1 kB\n"), Some(1 << 20));
        assert_eq!(total_of_meminfo("MemFree: 1 kB\n"), None);
    }
}
