//! Files appear complete or not at all: killed, dropped and failing writers leave nothing behind.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::{
    io::{self, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use common::{assert_same, read_all};
use entasis::{Error, FileWriter, Reader, WriteOptions, Writer, generate::Generator};

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn batch() -> RecordBatch {
    let fields = vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Utf8, true),
        Field::new("c", DataType::Float64, true),
    ];
    Generator::new(70).batch(&Arc::new(Schema::new(fields)), 5_000)
}

fn small_groups() -> WriteOptions {
    WriteOptions { row_group_rows: 2_000, ..WriteOptions::default() }
}

const CHILD_PATH: &str = "ENTASIS_TEST_CHILD_PATH";

/// What the child of the next test does: it writes until it is killed. Without the variable it has nothing to do.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Ok(path) = std::env::var(CHILD_PATH) else {
        assert!(std::env::var_os(CHILD_PATH).is_none());
        return;
    };
    let batch = batch();
    let mut writer = FileWriter::create(Path::new(&path), batch.schema(), small_groups()).unwrap();
    for number in 0..u64::MAX {
        writer.write(&batch).unwrap();
        if number == 20 {
            println!("writing");
            io::stdout().flush().unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_killed_writer_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ent");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_writes_until_it_is_killed", "--nocapture"])
        .env(CHILD_PATH, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = io::BufRead::lines(io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("writing")));
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    let left = names(folder.path());
    if cfg!(target_os = "linux") {
        assert_eq!(left, [""; 0]);
    } else {
        assert!(!path.exists(), "{left:?}");
    }
}

#[test]
fn a_dropped_writer_leaves_nothing_and_the_earlier_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ent");
    let batch = batch();
    for earlier in [false, true] {
        let mut writer = FileWriter::create(&path, batch.schema(), small_groups()).unwrap();
        writer.write(&batch).unwrap();
        drop(writer);
        assert_eq!(names(folder.path()), if earlier { vec!["a.ent"] } else { vec![] });
        let mut writer = FileWriter::create(&path, batch.schema(), small_groups()).unwrap();
        writer.write(&batch).unwrap();
        writer.write(&batch.slice(0, if earlier { 5_000 } else { 0 })).unwrap();
        writer.finish().unwrap();
        assert_eq!(names(folder.path()), ["a.ent"]);
    }
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.rows(), 10_000);
    let twice = common::concat(&batch.schema(), &[batch.clone(), batch]);
    assert_same(&read_all(&reader).unwrap(), &twice, "the second file");
}

/// A sink on a disk that fills up.
struct Filling {
    room: usize,
}

impl Write for Filling {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let written = bytes.len().min(self.room);
        self.room -= written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_is_an_io_error_wherever_it_happens() {
    let fields = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)];
    let schema = Arc::new(Schema::new(fields));
    let batch = Generator::new(71).batch(&schema, 3_000);
    let write = |room: usize| -> entasis::Result<()> {
        let mut writer = Writer::new(Filling { room }, schema.clone(), small_groups())?;
        writer.write(&batch)?;
        writer.finish().map(drop)
    };
    let size = common::write(&schema, std::slice::from_ref(&batch), small_groups()).len();
    for room in (0..size).step_by(97).chain([size - 1]) {
        match write(room) {
            Err(Error::Io { source, .. }) => assert_eq!(source.kind(), io::ErrorKind::StorageFull),
            other => panic!("room for {room} bytes: {other:?}"),
        }
    }
    write(size).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_io_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let batch = batch();
    let mut writer = Writer::new(full, batch.schema(), small_groups()).unwrap();
    let result = writer.write(&batch).and_then(|()| writer.finish().map(drop));
    assert!(matches!(result, Err(Error::Io { .. })), "{result:?}");
}

const LIMITED_PATH: &str = "ENTASIS_TEST_LIMITED_PATH";

/// What the child of the next test does: it may write 20 KB and needs more.
#[test]
#[cfg(target_os = "linux")]
fn child_that_may_write_little() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let Ok(path) = std::env::var(LIMITED_PATH) else {
        assert!(std::env::var_os(LIMITED_PATH).is_none());
        return;
    };
    setrlimit(Resource::Fsize, Rlimit { current: Some(20_000), maximum: Some(20_000) }).unwrap();
    let batch = batch();
    let mut writer = FileWriter::create(Path::new(&path), batch.schema(), small_groups()).unwrap();
    let result = (0..100).try_for_each(|_| writer.write(&batch)).and_then(|()| writer.finish().map(drop));
    assert!(matches!(result, Err(Error::Io { .. })), "{result:?}");
    println!("refused");
}

#[test]
#[cfg(target_os = "linux")]
fn a_disk_that_fills_up_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // The signal of the limit would end the child: a shell ignores it for the child too.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_may_write_little", "--nocapture"])
        .env(LIMITED_PATH, folder.path().join("a.ent"))
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("refused"), "{output:?}");
    assert_eq!(names(folder.path()), [""; 0]);
}

/// A rename would put a file in the place of a device, a pipe or a socket.
#[test]
#[cfg(unix)]
fn what_is_no_regular_file_is_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a.ent");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let link = folder.path().join("b.ent");
    std::os::unix::fs::symlink(&socket, &link).unwrap();
    for path in [&socket, &link] {
        let refused = FileWriter::create(path, batch().schema(), small_groups()).map(drop);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    }
    assert_eq!(names(folder.path()), ["a.ent", "b.ent"]);
}
