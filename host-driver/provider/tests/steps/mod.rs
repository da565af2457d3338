//! What a post and a poll cost: every instruction between two breakpoints of `tests/c/steps.c` is stepped through and
//! counted, as of a card that is awake. The figures are in docs/results/instructions.md.

#![allow(dead_code)] // each test needs a part

use super::{compile, World};
use std::os::unix::process::CommandExt;

/// Highest count of instructions of a post and its poll together.
const LIMIT: u64 = 300;

#[derive(Debug, Default, Clone, Copy)]
pub struct Cost {
    pub instructions: u64,
    pub system_calls: u64,
    /// Instructions with a lock prefix, and exchanges with memory.
    locked: u64,
}

impl Cost {
    fn max(self, o: Cost) -> Cost {
        Cost {
            instructions: self.instructions.max(o.instructions),
            system_calls: self.system_calls.max(o.system_calls),
            locked: self.locked.max(o.locked),
        }
    }
}

/// The program, one instruction at a time where it asks for it.
struct Tracer(i32);

impl Tracer {
    fn ptrace(&self, request: libc::c_uint, data: usize) {
        // SAFETY: a stopped child of this thread.
        let r = unsafe { libc::ptrace(request, self.0, 0usize, data) };
        assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
    }
    /// Waits until it stops; the signal. None = it has ended well.
    fn wait(&self) -> Option<i32> {
        let mut st = 0;
        // SAFETY: room for the status.
        let r = unsafe { libc::waitpid(self.0, &mut st, libc::__WALL) };
        assert_eq!(r, self.0);
        if libc::WIFEXITED(st) {
            assert_eq!(libc::WEXITSTATUS(st), 0, "tests/c/steps.c failed");
            return None;
        }
        assert!(libc::WIFSTOPPED(st), "status {st:#x}");
        Some(libc::WSTOPSIG(st))
    }
    fn rip(&self) -> u64 {
        // SAFETY: filled by the call.
        unsafe {
            let mut regs: libc::user_regs_struct = std::mem::zeroed();
            self.ptrace(libc::PTRACE_GETREGS, &raw mut regs as usize);
            regs.rip
        }
    }
    fn bytes(&self, at: u64) -> [u8; 8] {
        // SAFETY: the address of an instruction of a stopped child; a wrong one is an error and no more.
        unsafe {
            *libc::__errno_location() = 0;
            libc::ptrace(libc::PTRACE_PEEKTEXT, self.0, at as usize, 0usize).to_le_bytes()
        }
    }
    /// Where the program itself lies.
    fn program(&self, exe: &std::path::Path) -> std::ops::Range<u64> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.0)).unwrap();
        let mut all = 0..0;
        for l in maps.lines().filter(|l| l.ends_with(exe.to_str().unwrap())) {
            let at = |s: &str| u64::from_str_radix(s, 16).unwrap();
            let (low, high) = l
                .split_whitespace()
                .next()
                .unwrap()
                .split_once('-')
                .unwrap();
            all = if all.is_empty() { at(low) } else { all.start }..at(high);
        }
        assert!(!all.is_empty(), "{maps}");
        all
    }
    /// Runs to the next breakpoint. False = the program has ended.
    fn go(&self) -> bool {
        let mut signal = 0;
        loop {
            self.ptrace(libc::PTRACE_CONT, signal as usize);
            match self.wait() {
                None => return false,
                Some(libc::SIGTRAP) => return true,
                Some(s) => signal = s,
            }
        }
    }
    /// Steps to the next breakpoint; counts what libraries execute.
    fn count(&self, program: &std::ops::Range<u64>) -> Cost {
        let mut c = Cost::default();
        loop {
            let rip = self.rip();
            let b = self.bytes(rip);
            if b[0] == 0xCC {
                self.ptrace(libc::PTRACE_SINGLESTEP, 0);
                assert_eq!(self.wait(), Some(libc::SIGTRAP));
                return c;
            }
            // the program's own, `ibv_post_send` among them, are its business
            c.instructions += !program.contains(&rip) as u64;
            c.system_calls += (b[..2] == [0x0F, 0x05]) as u64;
            // prefixes: lock, operand size, REX
            let op = b
                .iter()
                .position(|x| !matches!(x, 0x66 | 0x40..=0x4F))
                .unwrap_or(0);
            let exchange = matches!(b[op], 0x86 | 0x87) && b[op + 1] < 0xC0;
            c.locked += (b[..4].contains(&0xF0) && b[0] == 0xF0 || exchange) as u64;
            self.ptrace(libc::PTRACE_SINGLESTEP, 0);
            assert_eq!(self.wait(), Some(libc::SIGTRAP));
        }
    }
}

/// The sections of a round, in the order of the program.
const SECTIONS: [&str; 10] = [
    "WRITE: post",
    "WRITE: poll",
    "inline WRITE: post",
    "inline WRITE: poll",
    "RECV: post",
    "SEND: post",
    "SEND: poll of the one",
    "SEND: poll of the other",
    "ibv_wr_* WRITE: post",
    "ibv_wr_* WRITE: poll",
];

/// The greatest cost of each section, printed as a table. None = it can't be measured here.
pub fn measure(w: &World, args: &[&str]) -> Option<Vec<Cost>> {
    let exe = w.root.join("steps");
    if !compile("steps.c", &exe) {
        return None;
    }
    let mut c = w.command(exe.to_str().unwrap(), args);
    c.stdout(std::process::Stdio::null());
    c.stderr(std::process::Stdio::inherit());
    // SAFETY: a plain system call in the child.
    unsafe {
        c.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    let child = match c.spawn() {
        Ok(c) => c,
        Err(e) => {
            println!("skipped: no ptrace here ({e})");
            return None;
        }
    };
    let t = Tracer(child.id() as i32);
    assert_eq!(t.wait(), Some(libc::SIGTRAP), "its exec");
    let program = t.program(&exe);
    let mut all = vec![];
    while t.go() {
        all.push(t.count(&program));
    }
    assert!(
        all.len() >= 40 && all.len() % SECTIONS.len() == 0,
        "{}",
        all.len()
    );
    // The first rounds bind symbols and touch pages.
    let rounds: Vec<&[Cost]> = all.chunks(SECTIONS.len()).skip(2).collect();
    let most = |k: usize| rounds.iter().map(|r| r[k]).fold(Cost::default(), Cost::max);
    println!("| | instructions | locked | system calls |\n|---|---|---|---|");
    for (k, name) in SECTIONS.iter().enumerate() {
        let c = most(k);
        println!(
            "| {name} | {} | {} | {} |",
            c.instructions, c.locked, c.system_calls
        );
    }
    Some((0..SECTIONS.len()).map(most).collect())
}

/// On a card with queue pairs, which does the work.
pub fn limits(all: &[Cost]) {
    assert!(all.iter().all(|c| c.system_calls == 0), "{all:?}");
    let mut over = vec![];
    for (what, sections) in [
        ("WRITE", &[0, 1][..]),
        ("inline WRITE", &[2, 3]),
        ("SEND", &[5, 6]),
        ("RECV", &[4, 7]),
        ("ibv_wr_* WRITE", &[8, 9]),
    ] {
        let sum: u64 = sections.iter().map(|k| all[*k].instructions).sum();
        println!("{what}: {sum} instructions for a post and its poll");
        if sum > LIMIT {
            over.push((what, sum));
        }
    }
    // A build without optimisation is not what anybody measures.
    assert!(over.is_empty() || cfg!(debug_assertions), "{over:?}");
}
