//! A conversion that is stopped leaves nothing, and what was there before stays.
#![cfg(target_os = "linux")]

mod common;

use std::fmt::Write;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::Place;
use rustix::process::{Pid, Signal, kill_process};

/// Waits until the conversion has written something: its open files show how much.
fn wait_for_writing(child: &Child) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while written_bytes(child.id()) == 0 {
        assert!(Instant::now() < deadline, "nothing was written");
        sleep(Duration::from_micros(200));
    }
}

fn written_bytes(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Whether whoever started the tests has Ctrl-C ignored, as shells do for what runs in the background; conversions inherit that.
fn ignores_interrupts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let signals = ignored.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok());
    signals.is_some_and(|signals| signals & 1 << (Signal::INT.as_raw() - 1) != 0)
}

#[test]
fn stopped_conversions_leave_nothing() {
    let place = Place::new();
    let mut text = "id,value,name\n".to_owned();
    for row in 0..1_500_000u64 {
        let value = row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        writeln!(text, "{row},{value},name {}", value % 1000).unwrap();
    }
    place.write("t.csv", text);
    place.write("old.ent", "as it was");
    for (out, options) in [
        ("new.ent", ["--row-group-rows", "20000"]),
        ("old.ent", ["--row-group-rows", "20000"]),
        ("new.parquet", ["--row-group-rows", "20000"]),
        ("new.arrow", ["--threads", "1"]),
        ("new2.csv", ["--threads", "1"]),
    ] {
        for signal in [if ignores_interrupts() { Signal::TERM } else { Signal::INT }, Signal::KILL] {
            let arguments = [&["convert", "t.csv", out], &options[..]].concat();
            // On a busy machine a conversion may be through before this test gets to run again.
            let stopped = (0..20).any(|_| {
                place.write("old.ent", "as it was");
                let mut child = place.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                wait_for_writing(&child);
                // The process is ours and not waited for yet, so its number is too.
                kill_process(Pid::from_child(&child), signal).unwrap();
                let complete = child.wait().unwrap().success();
                if complete {
                    std::fs::remove_file(place.path(out)).unwrap();
                }
                !complete
            });
            assert!(stopped, "{out} was always complete before it could be stopped");
            assert_eq!(place.names(), ["old.ent", "t.csv"], "{out}, {signal:?}");
            assert_eq!(std::fs::read_to_string(place.path("old.ent")).unwrap(), "as it was");
        }
    }
}
