//! `entasis sql` at a terminal: a shell, driven through a pseudo-terminal as a person would.

#![cfg(all(feature = "sql", target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use common::{Place, parquet_bytes, table};
use nix::pty::{Winsize, openpty};

/// Long enough for any machine; nothing waits for it to pass.
const DEADLINE: Duration = Duration::from_secs(120);

const PROMPT: &str = "entasis> ";

/// A terminal with the shell in it.
struct Terminal {
    child: Child,
    keys: File,
    /// Ours as the program has it, to change its size.
    line: OwnedFd,
    output: Receiver<Vec<u8>>,
    screen: Screen,
}

/// What was shown and wasn't expected yet: without what moves about on the screen.
#[derive(Default)]
struct Screen {
    shown: Vec<u8>,
    /// Bytes of a sequence that isn't over.
    escape: Vec<u8>,
}

impl Screen {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match (self.escape.len(), byte) {
                (0, b'\r') => {}
                (0, 0x1b) => self.escape.push(byte),
                (0, _) => self.shown.push(byte),
                (1, _) | (_, 0..b'@') => self.escape.push(byte),
                _ => self.escape.clear(),
            }
        }
    }

    /// The text before `wanted`, once that is there.
    fn take(&mut self, wanted: &str, from: usize) -> Option<String> {
        let at = self.shown[from..].windows(wanted.len()).position(|bytes| bytes == wanted.as_bytes())? + from;
        let rest = self.shown.split_off(at + wanted.len());
        let mut before = std::mem::replace(&mut self.shown, rest);
        before.truncate(at);
        Some(String::from_utf8_lossy(&before).into_owned())
    }
}

impl Terminal {
    /// A shell that has said that it is ready.
    fn new(place: &Place, arguments: &[&str]) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).unwrap();
        // Clones aren't inherited by other processes that tests start.
        let (master, line) = (pair.master.try_clone().unwrap(), pair.slave.try_clone().unwrap());
        drop(pair);
        let shell = place.command(&[&["sql", "--threads", "2"], arguments].concat());
        // The terminal has to be the one that Ctrl-C is pressed at.
        let mut command = Command::new("setsid");
        command.arg("-c").arg(shell.get_program()).args(shell.get_args()).current_dir(place.path(""));
        command.env("HOME", place.path("home")).env_remove("XDG_STATE_HOME").env("TERM", "xterm");
        let inherited = || line.try_clone().unwrap();
        command.stdin(inherited()).stdout(inherited()).stderr(inherited());
        let child = command.spawn().unwrap();
        let keys = File::from(master);
        let mut shown = keys.try_clone().unwrap();
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = shown.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut terminal = Self { child, keys, line, output, screen: Screen::default() };
        terminal.expect(PROMPT);
        terminal
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until `wanted` is there, and gives what came before it.
    fn expect(&mut self, wanted: &str) -> String {
        let found = self.find(wanted, DEADLINE);
        found.unwrap_or_else(|| panic!("no {wanted:?} came, but {}", String::from_utf8_lossy(&self.screen.shown)))
    }

    fn find(&mut self, wanted: &str, time: Duration) -> Option<String> {
        let deadline = Instant::now() + time;
        let mut from = 0;
        loop {
            if let Some(before) = self.screen.take(wanted, from) {
                return Some(before);
            }
            from = self.screen.shown.len().saturating_sub(wanted.len());
            self.screen.add(&self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?);
        }
    }

    /// Presses Ctrl-C until what runs has stopped: pressed too early it is a key for the next prompt.
    fn stop(&mut self) {
        let deadline = Instant::now() + DEADLINE;
        while Instant::now() < deadline {
            self.press("\u{3}");
            if self.find("error: stopped\n", Duration::from_millis(500)).is_some() {
                self.expect(PROMPT);
                return;
            }
        }
        panic!("nothing stops it: {}", String::from_utf8_lossy(&self.screen.shown));
    }

    /// Types a statement, whose answer has `wanted`, and waits until the next can be typed; gives all that came after the line that was typed.
    fn ask(&mut self, statement: &str, wanted: &str) -> String {
        self.press(statement);
        self.press("\r");
        let before = self.expect(wanted);
        before + wanted + &self.expect(PROMPT)
    }

    fn resize(&self, columns: u16) {
        let stty =
            Command::new("stty").args(["cols", &columns.to_string()]).stdin(self.line.try_clone().unwrap()).status();
        assert!(stty.unwrap().success());
    }

    fn wait(mut self) -> ExitStatus {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the shell goes on");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_table() -> Place {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&table(1_000)));
    place.good(&["convert", "t.parquet", "t.ent"]);
    place
}

/// Runs until somebody stops it.
const ENDLESS: &str = "select count(*) as never from generate_series(1, 1000000) a, generate_series(1, 1000000) b \
    where a.value * b.value % 7 = 3;";

#[test]
fn statements_of_several_lines_are_answered_with_their_time() {
    let place = with_table();
    let mut shell = Terminal::new(&place, &["--cache", "1MiB"]);
    let found = shell.ask("select 40 +\r 2 as answer;", "    42\n");
    assert!(found.contains("answer\n──────\n") && (found.ends_with("s\n")), "{found}");
    // A comment behind the last semicolon doesn't keep it open, and two statements are two answers.
    shell.ask("select 6 * 7 as one; select 6 * 8 as other; -- both", "   48\n");
    // Tab completes words, names of files and their quotes, and tables.
    shell.ask("sel\t count(*) as many from 't.e\t;", "1000\n");
    shell.ask("create table zebra as select 17 as found;", " ms");
    shell.ask("select found + 1 from ze\t;", "18\n");
    shell.ask("\\c\t", "encoded");
    shell.ask("\\?", "Ctrl-R searches them");
    shell.ask("\\nothing", "\\? says which there are");
    // Errors show the place.
    shell.ask("select id,\r  nope from 't.ent';", "error: line 2, column 3: No field named nope");
    shell.ask("select id,\r  nope from 't.ent';", "\n    nope from 't.ent';\n    ^\n");
    shell.press("\u{4}");
    assert!(shell.wait().success());
}

#[test]
fn ctrl_c_stops_what_runs_or_is_typed_and_never_the_shell() {
    let place = with_table();
    let mut shell = Terminal::new(&place, &[]);
    // As the first thing, and again; in a query, and in a statement that is carried out before it has an answer.
    for statement in [ENDLESS, ENDLESS, &format!("create table never as {ENDLESS}")] {
        shell.press(statement);
        shell.press("\r");
        shell.expect("= 3;\n");
        // All threads compute by then, and don't look around for long.
        thread::sleep(Duration::from_millis(300));
        shell.stop();
        shell.ask("select 21 * 2 as alive;", "   42\n");
    }
    // An answer that is being printed.
    shell.press("select value as printed from generate_series(1, 100000000000);\r");
    shell.expect("\n      7\n");
    shell.stop();
    // A line that nobody wants any more, in an open quote.
    shell.press("select 'half\rof it");
    shell.expect("of it");
    shell.press("\u{3}");
    shell.expect(&format!("\n{PROMPT}"));
    shell.ask("select 21 * 2 as alive;", "   42\n");
    shell.press("\u{3}\u{3}");
    shell.expect(PROMPT);
    shell.ask("select 21 * 2 as alive;", "   42\n");
    shell.press("exit\r");
    assert!(shell.wait().success());
}

#[test]
fn tables_fit_the_terminal_as_it_is() {
    let place = with_table();
    let mut shell = Terminal::new(&place, &[]);
    let wide = "select *, at as b, at as c, city as d, id as e from 't.ent' where id = 8;";
    let found = shell.ask(wide, "columns; select those that you want to see");
    let lines: Vec<&str> = found.lines().skip_while(|line| !line.starts_with("id ")).collect();
    assert!(lines.len() > 3 && lines.iter().all(|line| line.chars().count() <= 80), "{found}");
    assert!(lines[0].contains("…") && lines[2].trim_start().starts_with("8 "), "{found}");
    shell.resize(400);
    let found = shell.ask(wide, " ms\n");
    assert!(!found.contains("columns; select those"), "{found}");
}

#[test]
fn what_was_typed_is_remembered_however_a_session_ends() {
    let place = with_table();
    let mut shell = Terminal::new(&place, &[]);
    shell.ask("select 30 +\r3 as first;", "   33\n");
    shell.ask("select 40 + 4 as second;", "    44\n");
    shell.ask("\u{1b}[A\u{1b}[A", "   33\n");
    drop(shell);
    let kept = std::fs::read_to_string(place.path("home/.local/state/entasis/history")).unwrap();
    assert!(kept.contains("40 + 4"), "{kept}");
    let mut shell = Terminal::new(&place, &[]);
    shell.ask("\u{1b}[A", "   33\n");
}
